// Clients of an NBD server, as many and as small as a test wants them: handshake, and reads of 4 KiB one after the other.
"use strict";

const net = require("node:net");

const OPTION_MAGIC = Buffer.from("IHAVEOPT");
const OPTION_EXPORT_NAME = 1;
const REQUEST_MAGIC = 0x25609513;
const BLOCK = 4096;
// "NBDMAGIC", "IHAVEOPT" and 16 bits of flags; then size and flags of the export.
const [GREETING, EXPORT] = [18, 10];

/** Connects to an export; resolves when it can be used. */
function connect(port, name) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1");
    const client = { socket, reads: 0, onReply: null };
    let [wanted, received] = [GREETING, 0];
    socket.on("error", reject);
    socket.on("data", (data) => {
      received += data.length;
      if (received < wanted) return;
      received -= wanted;
      if (wanted === GREETING) {
        // Fixed newstyle, no zeroes.
        const head = Buffer.alloc(12);
        head.writeUInt32BE(3, 0);
        const option = Buffer.alloc(8);
        option.writeUInt32BE(OPTION_EXPORT_NAME, 0);
        option.writeUInt32BE(Buffer.byteLength(name), 4);
        socket.write(Buffer.concat([head.subarray(0, 4), OPTION_MAGIC, option, Buffer.from(name)]));
        wanted = EXPORT;
      } else if (wanted === EXPORT) {
        wanted = 16 + BLOCK;
        resolve(client);
      } else {
        client.reads += 1;
        client.onReply?.();
      }
    });
  });
}

function read(client) {
  const request = Buffer.alloc(28);
  request.writeUInt32BE(REQUEST_MAGIC, 0);
  request.writeBigUInt64BE(BigInt(client.reads), 8);
  request.writeBigUInt64BE(BigInt((client.reads % 64) * BLOCK), 16);
  request.writeUInt32BE(BLOCK, 24);
  client.socket.write(request);
}

/** Reads until the client is closed. */
function readOn(client) {
  client.onReply = () => read(client);
  read(client);
}

module.exports = { connect, readOn };
