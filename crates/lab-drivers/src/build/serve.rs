//! Our own server as a process, and what an export says of itself.

use std::path::Path;

use lab::plan::Transport;
use lab::tools::Invocation;
use lab::units::Bytes;

use super::carry_out::TargetBuild;
use super::process::{DEAF, own_program};
use super::step::{listen, socket};
use crate::DriverError;
use crate::runtime::on_engine;

impl TargetBuild<'_> {
    /// Serves `disk`, an expression with names in it, as the export `name`, which refers to its URI then.
    pub(super) fn serve(
        &mut self,
        name: &str,
        disk: &str,
        transport: Transport,
        folder: &Path,
    ) -> Result<(), String> {
        let expression = self.names.expression(disk);
        self.rules.check(&expression)?;
        let socket = socket(folder, name);
        let port = folder.join(format!("{name}.port"));
        let mut args = vec![
            "serve".to_owned(),
            format!("{name}={expression}"),
            "--listen".to_owned(),
            listen(transport, folder, name),
            "--exit-with-parent".to_owned(),
        ];
        if transport == Transport::Tcp {
            args.extend(["--port-file".to_owned(), port.display().to_string()]);
        }
        self.note_words("outboard", &args);
        let log = folder.join(format!("{name}.log"));
        let own = Invocation::new(&own_program()?, args);
        let ready = match transport {
            Transport::Unix => &socket,
            Transport::Tcp => &port,
        };
        let title = format!("the server of {name}");
        let server = self.start(&title, &own, &log, DEAF, |_| ready.exists())?;
        let address = match transport {
            Transport::Unix => nbd::client::Address::Unix(socket.clone()),
            Transport::Tcp => nbd::client::Address::Tcp {
                host: "127.0.0.1".to_owned(),
                port: number_in(&port)?,
            },
        };
        let target = nbd::client::Target::new(address, name.to_owned());
        let uri = target.to_string();
        self.rules.add_export(target);
        self.names.set(name, &uri);
        self.servers.push(server.pid);
        self.export = Some(uri);
        Ok(())
    }
}

fn number_in(path: &Path) -> Result<u16, String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let number = text.trim().parse();
    number.map_err(|_| format!("{} has no port in it", path.display()))
}

/// The size of an export and whether it is read-only, from its server.
pub(super) fn export_at(uri: &str) -> Result<(Bytes, bool), String> {
    let target: nbd::client::Target = uri
        .parse()
        .map_err(|error| format!("cannot use {uri}: {error}"))?;
    let timeout = nbd::client::ClientConfig::default().request_timeout;
    let described = on_engine(async || {
        let described = Box::pin(nbd::client::describe(&target, timeout)).await;
        described.map_err(DriverError::from_error)
    });
    let export = described.map_err(|error| error.to_string())?.export;
    let mut flags = export.flags.iter_names();
    Ok((
        Bytes(export.size),
        flags.any(|(name, _)| name == "READ_ONLY"),
    ))
}
