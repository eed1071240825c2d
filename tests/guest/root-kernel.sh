# The guest boots its root filesystem from our server, attached through the kernel's nbd; the server is killed and
# started again under the running system.
#: root DISK 96M
#: outboard
#: processors 1
#: timeout 300

sh /guest/attach-root kernel
