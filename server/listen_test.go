package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linkforge/linkforge/internal/platform/must"
	"github.com/linkforge/linkforge/internal/platform/poll/polltest"
	"github.com/linkforge/linkforge/internal/platform/proctest"
)

// certify writes a certificate for localhost, and its key, into two files.
func certify(t *testing.T, certificateFile, keyFile string, serial int64) {
	t.Helper()
	key := must.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	signed := must.Value(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	private := must.Value(x509.MarshalPKCS8PrivateKey(key))(t)
	for file, block := range map[string]*pem.Block{certificateFile: {Type: "CERTIFICATE", Bytes: signed},
		keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		must.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
}

// TestListen_ServesTLS: with a certificate the server serves TLS and HTTP/2, uses https in its URLs, and passes
// its health check.
func TestListen_ServesTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	certificateFile, keyFile := filepath.Join(folder, "certificate.pem"), filepath.Join(folder, "key.pem")
	certify(t, certificateFile, keyFile, 1)
	b := embedded(t)
	address := proctest.FreeAddress()
	env := append(b.env, "LINKFORGE_LISTEN="+address, "LINKFORGE_TLS_CERTIFICATE="+certificateFile,
		"LINKFORGE_TLS_KEY="+keyFile)
	process := program(t.Context(), t, env)
	var out strings.Builder
	process.Stdout = &out
	must.NoError(t, process.Start())
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	polltest.Until(t, "the server answers", func() bool {
		response, err := client.Get("https://" + address + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK && response.ProtoMajor == 2 &&
			response.TLS.PeerCertificates[0].SerialNumber.Int64() == 1
	})
	if said, stderr, status := command(t, env, "", "healthcheck"); said != "ready\n" || status != 0 {
		t.Errorf("healthcheck: %q, exit status %d: %s", said, status, stderr)
	}
	_ = process.Process.Signal(os.Interrupt)
	if err := process.Wait(); err != nil || !strings.Contains(out.String(), "https://localhost:") {
		t.Errorf("%v: it says\n%s", err, &out)
	}
}

// TestListen_ReloadsCertificate: the next look sees that its files have changed. Broken ones change
// nothing.
func TestListen_ReloadsCertificate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	certificateFile, keyFile := filepath.Join(folder, "certificate.pem"), filepath.Join(folder, "key.pem")
	certify(t, certificateFile, keyFile, 1)
	c := must.Value(openCertificate(certificateFile, keyFile, slog.New(slog.DiscardHandler)))(t)
	serial := func() int64 {
		now := must.Value(c.TLSConfig().GetCertificate(nil))(t)
		return now.Leaf.SerialNumber.Int64()
	}
	if c.files.Changed() || serial() != 1 {
		t.Errorf("changed, or serial %d, want 1", serial())
	}
	certify(t, certificateFile, keyFile, 1000)
	if !c.files.Changed() || c.load() != nil || serial() != 1000 {
		t.Errorf("serial %d, want 1000", serial())
	}
	must.NoError(t, os.WriteFile(certificateFile, []byte("nothing"), 0o600))
	if !c.files.Changed() || c.load() == nil || serial() != 1000 {
		t.Errorf("a broken file is used: serial %d", serial())
	}
	if _, err := openCertificate(certificateFile, keyFile, nil); err == nil ||
		!strings.Contains(err.Error(), "LINKFORGE_TLS_CERTIFICATE") {
		t.Errorf("a server starts with a broken certificate: %v", err)
	}
}

// TestListen_ReadsPROXYProtocol: the header names the client. Connections without it are refused.
func TestListen_ReadsPROXYProtocol(t *testing.T) {
	t.Parallel()
	b, address := embedded(t), proctest.FreeAddress()
	env := append(b.env, "LINKFORGE_LISTEN="+address, "LINKFORGE_PROXY_PROTOCOL=on",
		"LINKFORGE_ADMIN_LISTEN="+proctest.FreeAddress(),
		"LINKFORGE_TRUSTED_PROXIES=127.0.0.1", "LINKFORGE_RATE_LIMITS=on", "LINKFORGE_REQUEST_RATE=2")
	process := program(t.Context(), t, env)
	must.NoError(t, process.Start())
	defer func() { _ = process.Process.Kill(); _ = process.Wait() }()
	ask := func(header string) (status string, err error) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		body := `{"query":"{ platformStats { totalLinks } }"}`
		_, err = io.WriteString(conn, header+"POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
			"application/json\r\nContent-Length: "+
			"44\r\n\r\n"+body)
		if err != nil {
			return "", err
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSpace(line), err
	}
	const first, second = "PROXY TCP4 203.0.113.1 127.0.0.1 1 2\r\n", "PROXY TCP4 203.0.113.2 127.0.0.1 1 2\r\n"
	polltest.Until(t, "the server answers", func() bool {
		_, err := ask("PROXY TCP4 203.0.113.3 127.0.0.1 1 2\r\n")
		return err == nil
	})
	for i, want := range []string{"HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "HTTP/1.1 429 Too Many Requests"} {
		if got, err := ask(first); got != want {
			t.Errorf("request %d: %q, want %q: %v", i, got, want, err)
		}
	}
	if got, err := ask(second); got != "HTTP/1.1 200 OK" {
		t.Errorf("another address: %q: %v", got, err)
	}
	if said, stderr, status := command(t, env, "", "healthcheck"); said != "ready\n" || status != 0 {
		t.Errorf("healthcheck: %q, exit status %d: %s", said, status, stderr)
	}
	if got, err := ask(""); err == nil && !strings.Contains(got, "400") {
		t.Errorf("without a header: %q", got)
	}
}
