//! Objects that are JSON: what they are (`format`) and of which version comes first, since another version may have other fields. Pure.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// As the bytes of an object.
///
/// # Panics
/// `of` has what JSON does not, such as a map with keys that are no text.
pub(super) fn to_bytes(of: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(of).expect("text and numbers are JSON");
    bytes.push(b'\n');
    bytes
}

/// The JSON of these bytes, and its version. `Err`: why it is none of this format.
pub(super) fn versioned(bytes: &[u8], format: &str) -> Result<(Value, u64), String> {
    let json: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if json["format"] != format {
        return Err(format!("its format is not {format:?}"));
    }
    let version = json["version"].as_u64();
    let version = version.ok_or_else(|| "it has no version".to_owned())?;
    Ok((json, version))
}

/// What these bytes are, of the only version that is read. `E`: no such JSON, or another version.
pub(super) fn of_version<T: DeserializeOwned, E>(
    bytes: &[u8],
    (format, version): (&str, u32),
    no_json: impl Fn(String) -> E,
    other_version: impl Fn(u64) -> E,
) -> Result<T, E> {
    let (json, found) = versioned(bytes, format).map_err(&no_json)?;
    if found != u64::from(version) {
        return Err(other_version(found));
    }
    serde_json::from_value(json).map_err(|error| no_json(error.to_string()))
}
