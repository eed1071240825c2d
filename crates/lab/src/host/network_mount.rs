//! [`NetworkMount`]: what the kernel's clients of NFS and SMB say of a mount in its options. Pure. Sources:
//! nfs(5), mount.cifs(8), and what the kernel shows (`fs/nfs/super.c`, `fs/smb/client/cifsfs.c`).

use std::fmt;
use std::net::IpAddr;

use super::mounts::Mount;
use crate::units::Bytes;

/// Ports of servers that were not given another one (IANA).
const NFS_PORT: u16 = 2049;
const SMB_PORT: u16 = 445;

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// NFS.
    Nfs,
    /// SMB.
    Smb,
}

/// A mount of a server's directory by a client in the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkMount {
    /// What is spoken.
    pub protocol: Protocol,
    /// In this version: `4.2`, `3.1.1`.
    pub version: Option<String>,
    /// Over this: `tcp`, `udp`, `rdma`.
    pub transport: String,
    /// Over so many connections.
    pub connections: u32,
    /// Whether what goes over the wire is encrypted.
    pub is_encrypted: bool,
    /// The most bytes of one read on the wire.
    pub read_size: Option<Bytes>,
    /// The most bytes of one write on the wire.
    pub write_size: Option<Bytes>,
    /// The server's address.
    pub peer: Option<IpAddr>,
    /// The port that it listens on.
    pub port: u16,
}

impl NetworkMount {
    /// What is known of a mount; none if it is of neither protocol.
    #[must_use]
    pub fn of(mount: &Mount) -> Option<Self> {
        let protocol = match mount.filesystem.as_str() {
            "nfs" | "nfs4" => Protocol::Nfs,
            "cifs" | "smb3" => Protocol::Smb,
            _ => return None,
        };
        let options = MountOptions(&mount.options);
        let size = |key| options.number(key).map(Bytes);
        Some(Self {
            protocol,
            version: options.value("vers").map(str::to_owned),
            transport: transport(protocol, &options),
            connections: connections(protocol, &options),
            is_encrypted: is_encrypted(protocol, &options),
            read_size: size("rsize"),
            write_size: size("wsize"),
            peer: mount.peer(),
            port: options
                .number("port")
                .and_then(|port| u16::try_from(port).ok())
                .filter(|port| *port > 0)
                .unwrap_or(match protocol {
                    Protocol::Nfs => NFS_PORT,
                    Protocol::Smb => SMB_PORT,
                }),
        })
    }
}

fn transport(protocol: Protocol, options: &MountOptions<'_>) -> String {
    match protocol {
        // `tcp6` is TCP, too.
        Protocol::Nfs => {
            let proto = options.value("proto").unwrap_or("tcp");
            proto.trim_end_matches('6').to_owned()
        }
        Protocol::Smb if options.has("rdma") => "rdma".into(),
        Protocol::Smb => "tcp".into(),
    }
}

fn connections(protocol: Protocol, options: &MountOptions<'_>) -> u32 {
    let count = match protocol {
        Protocol::Nfs => options.number("nconnect"),
        // Without the word, the number is only what would be the most.
        Protocol::Smb if options.has("multichannel") => options.number("max_channels"),
        Protocol::Smb => None,
    };
    let count = count.and_then(|count| u32::try_from(count).ok());
    count.filter(|count| *count > 0).unwrap_or(1)
}

fn is_encrypted(protocol: Protocol, options: &MountOptions<'_>) -> bool {
    match protocol {
        Protocol::Nfs => {
            // krb5 and krb5i sign at most.
            let by_tls = ["tls", "mtls"]
                .map(Some)
                .contains(&options.value("xprtsec"));
            options.value("sec") == Some("krb5p") || by_tls
        }
        Protocol::Smb => options.has("seal"),
    }
}

impl fmt::Display for NetworkMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.protocol {
            Protocol::Nfs => "NFS",
            Protocol::Smb => "SMB",
        })?;
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        write!(f, " over {}", self.transport.to_uppercase())?;
        if self.connections > 1 {
            write!(f, ", {} connections", self.connections)?;
        }
        if let Some(size) = self.read_size {
            write!(f, ", reads of {size} at most")?;
        }
        match self.is_encrypted {
            true => f.write_str(", encrypted"),
            false => Ok(()),
        }
    }
}

/// `key`, `key=value`, separated by commas.
struct MountOptions<'a>(&'a str);

impl<'a> MountOptions<'a> {
    fn value(&self, key: &str) -> Option<&'a str> {
        let mut pairs = self
            .0
            .split(',')
            .filter_map(|option| option.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.value(key)?.parse().ok()
    }

    fn has(&self, key: &str) -> bool {
        self.0.split(',').any(|option| option == key)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::host::mounts;

    /// As the kernel writes them: NFS 4.2 by Kerberos with four connections, NFS 3 over UDP, NFS 4.2 over
    /// IPv6 under TLS on a port of its own, SMB sealed on two channels, SMB as it is by default.
    const TABLE: &str = "\
        90 28 0:52 / /mnt/krb rw,relatime shared:1 - nfs4 nas:/srv rw,vers=4.2,rsize=1048576,wsize=524288,namlen=255,hard,proto=tcp,nconnect=4,timeo=600,retrans=2,sec=krb5p,clientaddr=192.0.2.9,local_lock=none,addr=192.0.2.7\n\
        91 28 0:53 / /mnt/old rw,relatime - nfs nas:/old rw,vers=3,rsize=32768,wsize=32768,namlen=255,hard,proto=udp,timeo=11,retrans=3,sec=sys,mountaddr=192.0.2.7,mountvers=3,mountport=20048,mountproto=udp,local_lock=none,addr=192.0.2.7\n\
        92 28 0:54 / /mnt/tls rw,relatime - nfs4 [2001:db8::7]:/srv rw,vers=4.2,rsize=262144,wsize=262144,namlen=255,hard,proto=tcp6,port=20490,timeo=600,retrans=2,sec=sys,xprtsec=mtls,clientaddr=::,local_lock=none,addr=2001:db8::7\n\
        93 28 0:55 / /mnt/smb rw,relatime - cifs //nas/share rw,vers=3.1.1,cache=strict,username=u,uid=0,noforceuid,gid=0,noforcegid,addr=192.0.2.7,file_mode=0755,dir_mode=0755,seal,soft,nounix,serverino,mapposix,rsize=4194304,wsize=4194304,bsize=1048576,multichannel,max_channels=2,echo_interval=60,actimeo=1\n\
        94 28 0:56 / /mnt/plain rw,relatime - cifs //nas/share rw,vers=3.0,cache=none,username=seal,addr=192.0.2.8,soft,rsize=65536,wsize=65536,max_channels=4\n\
        95 28 0:57 / /mnt/ssh rw - fuse.sshfs nas:/srv rw,user_id=0\n";

    fn at(point: &str) -> Option<NetworkMount> {
        let table = mounts::parse(TABLE);
        NetworkMount::of(mounts::find(&table, point.as_ref()).unwrap())
    }

    #[test]
    fn nfs_reports_version_transport_connections_sizes_and_encryption() {
        let krb = at("/mnt/krb").unwrap();
        assert_eq!(
            krb.to_string(),
            "NFS 4.2 over TCP, 4 connections, reads of 1 MiB at most, encrypted"
        );
        assert_eq!(krb.write_size, Some(Bytes(524_288)));
        assert_eq!((krb.peer, krb.port), ("192.0.2.7".parse().ok(), NFS_PORT));
        let old = at("/mnt/old").unwrap();
        assert_eq!(old.to_string(), "NFS 3 over UDP, reads of 32 KiB at most");
        // The port of the mount protocol is not that of NFS.
        assert_eq!((old.is_encrypted, old.port), (false, NFS_PORT));
        let tls = at("/mnt/tls").unwrap();
        assert!(tls.is_encrypted && tls.transport == "tcp");
        assert_eq!((tls.peer, tls.port), ("2001:db8::7".parse().ok(), 20490));
    }

    #[test]
    fn smb_is_encrypted_where_it_is_sealed_and_has_channels_where_it_says_so() {
        let smb = at("/mnt/smb").unwrap();
        assert_eq!(
            smb.to_string(),
            "SMB 3.1.1 over TCP, 2 connections, reads of 4 MiB at most, encrypted"
        );
        assert_eq!(smb.port, SMB_PORT);
        let plain = at("/mnt/plain").unwrap();
        assert_eq!((plain.is_encrypted, plain.connections), (false, 1));
    }

    #[test]
    fn other_filesystems_are_not_taken_for_either() {
        assert_eq!(at("/mnt/ssh"), None);
    }

    proptest! {
        #[test]
        fn no_options_make_it_panic(options in ".{0,200}", filesystem in "nfs|nfs4|cifs|smb3") {
            let line = format!("1 1 0:1 / /m rw - {filesystem} s {options}");
            let found = mounts::parse(&line).iter().find_map(NetworkMount::of);
            prop_assert!(found.is_none_or(|found| found.connections > 0 && found.port > 0));
        }
    }
}
