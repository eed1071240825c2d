//! [`AttachedArrays`]: the arrays below an attached disk. A control socket reports and changes them, as that of a server does;
//! they are stopped when the disk is detached.

use std::pin::Pin;
use std::sync::Arc;

use attach::DiskSupervisor;
use nodes::array::Array;
use tokio::sync::Mutex;

use super::change::{self, OpenClaims};
use super::report::ArrayReport;
use super::{Arrays, show};
use crate::control::place::{self, ControlSocket};
use crate::control::server::{self, AnswerFuture, ControlHandler};
use crate::control::{ArrayRequest, ArrayStep, ControlAnswer, ControlRequest};
use crate::graph::builder::Builder;

/// The arrays of an attached disk, and their control socket.
#[derive(Debug)]
pub(crate) struct AttachedArrays {
    arrays: Arc<Arrays>,
    control: Option<ControlSocket>,
}

impl AttachedArrays {
    /// Watches the arrays that `builder` has opened for the disk `text`; nothing where there are none.
    /// Call on the engine.
    pub(crate) fn of(text: &str, builder: Builder) -> Option<Self> {
        let opened: Vec<Arc<Array>> = builder.arrays().to_vec();
        if opened.is_empty() {
            return None;
        }
        let arrays = Arc::new(Arrays::new(None));
        arrays.add(text, opened);
        let held = Mutex::new(OpenClaims::by(builder));
        let handler = Arc::new(AttachedControl {
            arrays: arrays.clone(),
            held,
        });
        let control = place::attached_path().and_then(|path| {
            let socket = ControlSocket::open(&path).map_err(|e| e.to_string());
            let started = socket.and_then(|socket| {
                let started = server::start(&socket, handler);
                started.map(|()| socket).map_err(|failure| failure.line())
            });
            started
                .inspect_err(|why| {
                    tracing::warn!("`outboard array` will not see its arrays: {why}")
                })
                .ok()
        });
        Some(Self { arrays, control })
    }
}

impl DiskSupervisor for AttachedArrays {
    fn problem(&self) -> Option<String> {
        let reports = self.arrays.reports();
        let degraded = reports.iter().find(|report| report.is_degraded())?;
        Some(show::line(degraded))
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async {
            self.control.iter().for_each(ControlSocket::remove);
            let problems = self.arrays.stop_all().await;
            match problems.is_empty() {
                true => Ok(()),
                false => Err(problems.join("; ")),
            }
        })
    }
}

/// Handles the requests on the control socket.
#[derive(Debug)]
struct AttachedControl {
    arrays: Arc<Arrays>,
    held: Mutex<OpenClaims>,
}

impl AttachedControl {
    async fn change(&self, request: ArrayRequest) -> Result<ControlAnswer, String> {
        // One change at a time.
        let mut held = self.held.lock().await;
        let ArrayRequest { export, uuid, step } = request;
        let array = self.arrays.find(&export, &uuid);
        let array = array.ok_or_else(|| format!("{export} has no array {uuid} now"))?;
        if let ArrayStep::Stop { .. } = step {
            let next = "`outboard detach` stops it";
            return Err(format!("the array is below an attached device; {next}"));
        }
        change::apply_request(&array, step, &mut *held).await?;
        let report = ArrayReport::of(Some(&export), &array.status());
        Ok(ControlAnswer::Array(Box::new(report)))
    }
}

impl ControlHandler for AttachedControl {
    fn handle(self: Arc<Self>, request: ControlRequest) -> AnswerFuture {
        Box::pin(async move {
            match request {
                ControlRequest::Arrays => Ok(ControlAnswer::Arrays(self.arrays.reports())),
                ControlRequest::Array(request) => self.change(request).await,
                _ => Err("this is no server: a disk is attached here".to_owned()),
            }
        })
    }
}
