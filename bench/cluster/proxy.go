package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// proxyFile is what nginx is configured by, from the folder of the module.
const proxyFile = "docs/deploy/nginx.conf"

// proxy is nginx.
type proxy struct {
	address string
	roots   *x509.CertPool
	*process
}

// startProxy starts nginx in front of the nodes, with a certificate that only this process trusts.
func (h *host) startProxy(ctx context.Context, binary, address string, nodes []string) (*proxy, error) {
	text, err := moduleFile(ctx, proxyFile)
	if err != nil {
		return nil, err
	}
	folder, err := h.room("nginx")
	if err != nil {
		return nil, err
	}
	p := &proxy{address: address}
	certificate, key := filepath.Join(folder, "tls.pem"), filepath.Join(folder, "tls.key")
	if p.roots, err = h.writeCertificate(certificate, key); err != nil {
		return nil, err
	}
	settings, err := adaptProxy(text, proxyPlaces{
		nodes: nodes, plain: h.address(), secure: address, certificate: certificate, key: key, folder: folder,
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "nginx.conf")
	if err := h.write(file, settings); err != nil {
		return nil, err
	}
	p.process, err = h.launch("nginx", syscall.SIGTERM, nil, binary, "-e", "stderr", "-p", folder, "-c", file,
		"-g", "daemon off; pid "+filepath.Join(folder, "pid")+";")
	if err != nil {
		return nil, err
	}
	return p, p.await(ctx, "nginx listens", func() bool { return listens(address) })
}

// moduleFile reads a file of this tree, from whichever of its folders the drill was started.
func moduleFile(ctx context.Context, path string) (string, error) {
	root, err := rig.Root(ctx)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, path))
	return string(text), err
}

// proxyPlaces are where everything is.
type proxyPlaces struct {
	nodes                    []string
	plain, secure            string // addresses to listen at
	certificate, key, folder string
}

// proxyNodes are the nodes of a pool: lines that differ in nothing but the address.
var proxyNodes = regexp.MustCompile(`(?m)(^[ \t]*server )10\.\d+\.\d+\.\d+:\d+( [^\n]*;\n)(?:[ \t]*server 10\.[^\n]*;\n)*`)

// adaptProxy puts the places into the configuration that is documented, and leaves everything else
// as it is. What it does not find is an error: then what is documented would not be what is
// drilled.
func adaptProxy(text string, at proxyPlaces) (string, error) {
	if !proxyNodes.MatchString(text) {
		return "", fmt.Errorf("%s names no node", proxyFile)
	}
	var nodes strings.Builder
	for _, node := range at.nodes {
		nodes.WriteString("${1}" + node + "${2}")
	}
	text = proxyNodes.ReplaceAllString(text, nodes.String())
	var temporary strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "\t%s_temp_path %s;\n", kind, filepath.Join(at.folder, kind))
	}
	for _, change := range [][2]string{
		{"http {\n", "http {\n\taccess_log off;\n" + temporary.String()},
		{"listen 80;", "listen " + at.plain + ";"},
		{"listen 443 ", "listen " + at.secure + " "},
		{"/etc/nginx/tls/sho.rt.pem", at.certificate},
		{"/etc/nginx/tls/sho.rt.key", at.key},
		{"server_name sho.rt;", "server_name localhost;"},
	} {
		if !strings.Contains(text, change[0]) {
			return "", fmt.Errorf("%s has no %q", proxyFile, strings.TrimSpace(change[0]))
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	return text, nil
}

// writeCertificate makes a certificate for localhost, and returns who trusts it.
func (h *host) writeCertificate(certificate, key string) (*x509.CertPool, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(30 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(public) {
		return nil, errors.New("the certificate cannot be read")
	}
	return roots, errors.Join(h.write(certificate, string(public)),
		h.write(key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))))
}
