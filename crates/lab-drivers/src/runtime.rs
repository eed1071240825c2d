//! [`on_engine`]: asynchronous work of a driver, run to its end.

use crate::DriverError;

/// Runs `main` on an engine of one core, for what moves little.
pub(crate) fn on_engine<F, T>(main: impl FnOnce() -> F) -> Result<T, DriverError>
where
    F: Future<Output = Result<T, DriverError>>,
{
    let config = engine::Config {
        backend: engine::BackendChoice::Auto,
        cores: 1,
    };
    engine::run(&config, |_| main()).map_err(|error| DriverError::because("cannot start", error))?
}
