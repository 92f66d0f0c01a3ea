package pgscope

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT, in milliseconds
// (https://www.rfc-editor.org/rfc/rfc5482, https://man7.org/linux/man-pages/man7/tcp.7.html).
const tcpUserTimeout = 18

// limitSilence ends a connection whose data is not acknowledged.
func limitSilence(socket syscall.RawConn) (err error) {
	failed := socket.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
	})
	if failed != nil {
		return failed
	}
	return err
}
