package pgscope

import (
	"net"
	"syscall"
	"time"
)

// silence is how long a server may be unreachable before a connection counts as broken, and before
// an attempt to connect ends. Statements continue on new connections soon after an outage of the
// network: TCP sends lost data of old ones again after a time that grows with the outage, and it
// would wait a quarter of an hour for what the server does not acknowledge. A slow statement is no
// silence: the server acknowledges its data.
const silence = 4 * time.Second

// dialer returns a dialer whose connections end after silence, with statements or without.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 2, Interval: silence / 4, Count: 2},
		Control: func(network, _ string, socket syscall.RawConn) error {
			if network == "unix" {
				return nil
			}
			return limitSilence(socket)
		},
	}
}
