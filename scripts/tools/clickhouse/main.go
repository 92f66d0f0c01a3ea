// Command clickhouse is a ClickHouse server for tests: the engine of libchdb.so, loaded without
// cgo, with ClickHouse's own HTTP interface.
//
//	clickhouse -data DIR [-listen 127.0.0.1:0] [-library PATH]
//
// It prints its URL, as one line, when it takes requests, and ends at SIGTERM or SIGINT. A folder
// belongs to one process at a time and outlives a process that is killed. The user "default" needs
// no password; "linkforge" has the password "secret". A query whose client leaves runs to its end.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is set by the linker: the path when neither -library nor CHDB_LIB_PATH names one.
var library string

// users is the configuration with a place for its own path.
const users = `<clickhouse>
  <users_config>%s</users_config>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
  <users>
    <default><no_password/><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default>
    <linkforge><password>secret</password>
      <networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></linkforge>
  </users>
</clickhouse>
`

// statements make clickhouse-local, which ends with its last statement, a server: the second one
// writes the port, which the engine may have chosen, and the third reads a pipe until its other end
// closes.
const statements = `SYSTEM START LISTEN HTTP;
SELECT getServerPort('http_port') INTO OUTFILE '/proc/self/fd/%d' APPEND FORMAT TSV;
SELECT * FROM file('/proc/self/fd/%d', 'LineAsString', 'line String')
  SETTINGS storage_file_read_method = 'read' FORMAT Null`

func main() {
	data := flag.String("data", "", "the `folder` of the data, created when it is missing")
	listen := flag.String("listen", "127.0.0.1:0", "the `address` to listen on; port 0 is any free one")
	path := flag.String("library", cmp.Or(os.Getenv("CHDB_LIB_PATH"), library), "the `path` of libchdb.so")
	flag.Parse()
	if *data == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := serve(*data, *listen, *path); err != nil {
		fmt.Fprintln(os.Stderr, "clickhouse:", err)
		os.Exit(1)
	}
}

// serve returns nil when a signal has ended the server.
func serve(data, listen, library string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	if data, err = filepath.Abs(data); err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	config := filepath.Join(data, "config.xml")
	if err := os.WriteFile(config, fmt.Appendf(nil, users, html.EscapeString(config)), 0o600); err != nil {
		return err
	}
	ready, started, err := os.Pipe()
	if err != nil {
		return err
	}
	held, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer held.Close()

	ended := make(chan error, 1)
	go func() {
		defer started.Close()
		ended <- run(library, "clickhouse", "--path="+data, "--config-file="+config, "--listen_host=127.0.0.1",
			"--http_port=0", "--query="+fmt.Sprintf(statements, started.Fd(), held.Fd()))
	}()
	go func() {
		var port string
		if _, err := fmt.Fscan(ready, &port); err == nil {
			fmt.Println("http://" + listener.Addr().String())
			_ = http.Serve(listener, proxy("127.0.0.1:"+port))
		}
	}()
	select {
	case err := <-ended:
		return cmp.Or(err, errors.New("the engine has ended"))
	case <-signals:
		release.Close()
		return <-ended
	}
}

// proxy keeps clients that leave early from the engine. clickhouse-local, unlike the server, calls
// std::terminate at an error of a connection, such as the end of one whose request it still reads.
func proxy(engine string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: engine})
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			r.Out.Header.Del("Expect") // the body has arrived
		},
		Transport: transport(engine),
	}
}

// transport sends each request whole, by a connection of its own, and closes none before both the
// request and the response have passed. http.Transport closes it when a response precedes the
// request's end.
type transport string

func (engine transport) RoundTrip(r *http.Request) (*http.Response, error) {
	request := r.Clone(r.Context())
	if r.Body != nil {
		content, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	}
	connection, err := net.Dial("tcp", string(engine))
	if err != nil {
		return nil, err
	}
	written := make(chan error, 1)
	go func() { written <- request.Write(connection) }()
	response, err := http.ReadResponse(bufio.NewReader(connection), request)
	if err != nil {
		connection.Close()
		return nil, err
	}
	response.Body = &rest{response.Body, connection, written}
	return response, nil
}

type rest struct {
	io.Reader
	connection net.Conn
	written    <-chan error
}

func (b *rest) Close() error {
	_, _ = io.Copy(io.Discard, b.Reader)
	<-b.written
	return b.connection.Close()
}

// run runs clickhouse-local to its end with the arguments; the first one is its name. It reports
// errors of statements on standard error itself.
func run(path string, arguments ...string) error {
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return err
	}
	var handleSignals func(enabled int32)
	var query func(argc int32, argv **byte) unsafe.Pointer
	var failure func(result unsafe.Pointer) string
	purego.RegisterLibFunc(&handleSignals, library, "chdb_set_signal_handlers_enabled")
	purego.RegisterLibFunc(&query, library, "chdb_query_cmdline")
	purego.RegisterLibFunc(&failure, library, "chdb_result_error")

	handleSignals(0) // they would replace Go's
	argv := make([]*byte, 0, len(arguments)+1)
	for _, argument := range arguments {
		argv = append(argv, unsafe.StringData(argument+"\x00"))
	}
	argv = append(argv, nil)
	result := query(int32(len(arguments)), &argv[0])
	runtime.KeepAlive(argv)
	if text := failure(result); text != "" {
		return errors.New(text)
	}
	return nil
}
