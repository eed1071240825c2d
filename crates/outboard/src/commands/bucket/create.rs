//! `outboard bucket create`: a new volume, compressed and encrypted where that is wanted.

use bucket::{Compression, CreateOptions, create};

use super::{SizeArgs, failed};
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::output::Format;

/// A volume to be made. With a key it is encrypted.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    volume: SizeArgs,

    /// Compress its data in the store: lz4
    #[arg(long, value_name = "CODEC")]
    compress: Option<Compression>,
}

/// Makes it.
pub(super) async fn run(args: &CreateArgs, format: Format) -> Result<(), Failure> {
    let SizeArgs { target, size } = &args.volume;
    let what = CreateOptions {
        size: size.0,
        compression: args.compress,
    };
    let created = create(&target.uri, &target.options(), what).await;
    let created = created.map_err(failed)?;
    format.print(&created, || {
        let mut text = format!("{}: a volume of {}", created.uri, ByteSize(created.size));
        if let Some(compression) = created.compression {
            text.push_str(&format!(", compressed with {compression}"));
        }
        if let Some(cipher) = created.encryption {
            text.push_str(&format!(
                ", encrypted with {cipher}: it is lost without its key"
            ));
        }
        text
    })
}
