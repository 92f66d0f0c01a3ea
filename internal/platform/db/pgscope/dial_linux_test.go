package pgscope

import (
	"net"
	"syscall"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// TestDialer_LimitsSilence of connections by the options of their sockets. Unix sockets have none.
func TestDialer_LimitsSilence(t *testing.T) {
	t.Parallel()
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/socket"} {
		listener := must.Value(net.Listen(network, address))(t)
		defer listener.Close()
		config := must.Value(ParseConfig("postgres://a:b@127.0.0.1/c"))(t)
		conn := must.Value(config.DialFunc(t.Context(), network, listener.Addr().String()))(t)
		defer conn.Close()
		if network == "unix" {
			continue
		}
		raw := must.Value(conn.(*net.TCPConn).SyscallConn())(t)
		must.NoError(t, raw.Control(func(fd uintptr) {
			for option, want := range map[int]int{
				tcpUserTimeout: 4000, syscall.TCP_KEEPIDLE: 2, syscall.TCP_KEEPINTVL: 1, syscall.TCP_KEEPCNT: 2,
			} {
				if got := must.Value(syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, option))(t); got != want {
					t.Errorf("option %d is %d, want %d", option, got, want)
				}
			}
		}))
	}
}
