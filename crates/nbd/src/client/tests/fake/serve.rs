//! One connection of the fake server: handshake, requests, replies.

use std::io;
use std::sync::{Arc, Mutex};

use block::Range;
use nbd_proto::{
    ChunkFlags, ChunkRange, Command, ContextOffer, DiskIdentity, ExportInfo, ExportPurpose, Extent,
    Framing, HandshakeEvent, HandshakeStyle, Negotiated, Refusal, ReplyTo, Request,
    ServerHandshake, ServerHandshakeConfig,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::{Act, World};

pub(super) async fn serve(mut stream: UnixStream, world: Arc<Mutex<World>>) -> io::Result<()> {
    let is_greeted = {
        let world = world.lock().unwrap();
        world.connections < world.greeted_max
    };
    if !is_greeted {
        std::future::pending::<()>().await;
    }
    let Some(negotiated) = negotiate(&mut stream, &world).await? else {
        return Ok(());
    };
    let framing = negotiated.framing;
    let nth = {
        let mut world = world.lock().unwrap();
        world.connections += 1;
        world.connections
    };
    let mut looks = world.lock().unwrap().looks();
    let mut held: Vec<(Request, Vec<u8>)> = Vec::new();
    loop {
        let (request, payload) = receive(&mut stream, framing).await?;
        if request.command == Command::Disconnect {
            let ends_after = {
                let mut world = world.lock().unwrap();
                world.goodbyes += 1;
                world.ends_after
            };
            engine::clock::sleep(ends_after).await;
            world.lock().unwrap().ended += 1;
            return Ok(());
        }
        let range = Range::new(request.offset, request.len);
        let act = if request.command == Command::Read && looks.front() == Some(&range) {
            looks.pop_front();
            world.lock().unwrap().verified_on += usize::from(looks.is_empty());
            Act::Serve
        } else {
            looks.clear();
            let mut world = world.lock().unwrap();
            world.log.push(request);
            (world.script)(nth, &request)
        };
        match act {
            Act::Serve => {}
            Act::After(notify) => notify.notified().await,
            Act::Refuse(error, text) => {
                let chunk = framing.error(to(&request), error, text, None);
                stream.write_all(&chunk).await?;
                continue;
            }
            Act::Raw(bytes) => {
                stream.write_all(&bytes).await?;
                continue;
            }
            Act::Silence => continue,
            Act::Hangup => return Ok(()),
            Act::Hold => {
                held.push((request, payload));
                continue;
            }
        }
        let mut replies = Vec::new();
        for (request, payload) in std::iter::once((request, payload)).chain(held.drain(..)) {
            let mut world = world.lock().unwrap();
            world.apply(&request, &payload);
            replies.extend(reply(&world, &negotiated, &request));
        }
        stream.write_all(&replies).await?;
    }
}

async fn receive(stream: &mut UnixStream, framing: Framing) -> io::Result<(Request, Vec<u8>)> {
    let mut header = vec![0; framing.request_len()];
    stream.read_exact(&mut header).await?;
    let request = Request::decode_as(framing, &header).unwrap().unwrap();
    let len = request.payload_len(framing);
    let mut payload = vec![0; usize::try_from(len).unwrap()];
    stream.read_exact(&mut payload).await?;
    Ok((request, payload))
}

const fn to(request: &Request) -> ReplyTo {
    ReplyTo {
        cookie: request.cookie,
        offset: request.offset,
    }
}

fn reply(world: &World, negotiated: &Negotiated, request: &Request) -> Vec<u8> {
    let (framing, to) = (negotiated.framing, to(request));
    match request.command {
        Command::Read => read(world, framing, request),
        Command::BlockStatus => {
            let extents = extents_of(world, request);
            let contexts = negotiated.contexts.iter();
            let last = negotiated.contexts.len() - 1;
            let chunks = contexts.enumerate().map(|(nth, context)| {
                let flags = match nth == last {
                    true => ChunkFlags::DONE,
                    false => ChunkFlags::empty(),
                };
                framing.block_status(to, flags, context.id, &extents)
            });
            chunks.collect::<Vec<_>>().concat()
        }
        _ => framing.success(to).to_vec(),
    }
}

/// What the world says of the extents of a request, the first of them cut to where it begins. The
/// last may end behind it.
fn extents_of(world: &World, request: &Request) -> Vec<Extent> {
    let end = request.offset + request.len;
    let mut at = 0;
    let mut extents = Vec::new();
    for extent in &world.extents {
        let start = at.max(request.offset);
        at += extent.len;
        if at > start && start < end {
            extents.push(Extent {
                len: at - start,
                flags: extent.flags,
            });
        }
    }
    if at < end {
        let len = end - at.max(request.offset);
        extents.push(Extent { len, flags: 0 });
    }
    extents.truncate(world.extents_max);
    extents
}

fn read(world: &World, framing: Framing, request: &Request) -> Vec<u8> {
    let mut bytes = world.live[world.span(request)].to_vec();
    // An export may be larger than the memory behind it.
    bytes.resize(Range::new(0, request.len).len_usize(), 0);
    let step = match world.scattered && framing.is_chunked() {
        true => bytes.len().div_ceil(3),
        false => bytes.len(),
    };
    let pieces = bytes.chunks(step).enumerate();
    let mut chunks: Vec<Vec<u8>> = pieces
        .map(|(nth, bytes)| {
            let piece = ChunkRange {
                offset: request.offset + (nth * step) as u64,
                len: u32::try_from(bytes.len()).unwrap(),
            };
            let more = ChunkFlags::empty();
            if world.scattered && framing.is_chunked() && bytes.iter().all(|byte| *byte == 0) {
                return framing.read_hole(to(request), more, piece).to_vec();
            }
            let mut chunk = framing.read_data(to(request), more, piece).to_vec();
            chunk.extend(bytes);
            chunk
        })
        .collect();
    chunks.reverse();
    if framing.is_chunked() {
        chunks.push(framing.end(to(request)).to_vec());
    }
    chunks.concat()
}

/// All that an oldstyle server says before transmission.
async fn greet_oldstyle(stream: &mut UnixStream, export: ExportInfo) -> io::Result<Negotiated> {
    let mut greeting = b"NBDMAGIC\x00\x00\x42\x02\x81\x86\x12\x53".to_vec();
    greeting.extend(export.size.to_be_bytes());
    greeting.extend([0, 0]);
    greeting.extend(export.flags.bits().to_be_bytes());
    greeting.extend([0; 124]);
    stream.write_all(&greeting).await?;
    Ok(Negotiated {
        export,
        requested_name: String::new(),
        style: HandshakeStyle::Oldstyle,
        framing: Framing::Simple,
        contexts: Vec::new(),
        tls: false,
        no_zeroes: false,
        block_sizes_agreed: false,
        disk: DiskIdentity::default(),
        writer: None,
    })
}

async fn negotiate(
    stream: &mut UnixStream,
    world: &Mutex<World>,
) -> io::Result<Option<Negotiated>> {
    let (export, listed, contexts, framing) = {
        let world = world.lock().unwrap();
        let (listed, contexts) = (world.listed.clone(), world.contexts.clone());
        (world.export.clone(), listed, contexts, world.framing)
    };
    if world.lock().unwrap().oldstyle {
        return greet_oldstyle(stream, export).await.map(Some);
    }
    let mut handshake = ServerHandshake::new(ServerHandshakeConfig {
        framing,
        ..ServerHandshakeConfig::default()
    });
    stream.write_all(&handshake.greeting()).await?;
    loop {
        // One byte at a time: nothing of the transmission is taken.
        let byte = stream.read_u8().await?;
        handshake.receive(&[byte]);
        loop {
            match handshake.next_event() {
                None => break,
                Some(HandshakeEvent::Send(bytes)) => stream.write_all(&bytes).await?,
                Some(HandshakeEvent::FindExport {
                    name,
                    writer,
                    purpose,
                }) => {
                    let known = (name == export.name).then(|| export.clone());
                    let mut answer = known.ok_or(Refusal::Unknown);
                    if let (ExportPurpose::Info, Ok(export)) = (purpose, &mut answer)
                        && world.lock().unwrap().hides_size
                    {
                        export.size = 0;
                    }
                    if purpose != ExportPurpose::Info {
                        let mut world = world.lock().unwrap();
                        world.writers.push(writer);
                        answer = world.refuses.clone().map_or(answer, Err);
                    }
                    handshake.answer_export(answer);
                }
                Some(HandshakeEvent::FindContexts { name, .. }) => {
                    let known = name == export.name;
                    let offer = ContextOffer {
                        contexts: &contexts[..],
                        disk: world.lock().unwrap().disk.clone(),
                    };
                    handshake.answer_contexts(known.then_some(offer).ok_or(Refusal::Unknown));
                }
                // TLS is off.
                Some(HandshakeEvent::StartTls) => return Ok(None),
                Some(HandshakeEvent::List) => handshake.answer_list(&listed),
                Some(HandshakeEvent::Finished(negotiated)) => return Ok(Some(*negotiated)),
                Some(HandshakeEvent::Close(_)) => return Ok(None),
            }
            handshake.receive(&[]);
        }
    }
}
