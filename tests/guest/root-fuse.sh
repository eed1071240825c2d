# The guest boots its root filesystem from our server, attached over FUSE and a loop device; the server is killed and
# started again under the running system.
#: root DISK 96M
#: outboard
#: timeout 300

sh /guest/attach-root fuse
