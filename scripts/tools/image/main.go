// Command image writes the container image of Linkforge as an OCI layout: an index with an image
// for each architecture, from scratch. The same arguments give the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	name   = "ghcr.io/linkforge/linkforge"
	source = "https://github.com/linkforge/linkforge"
	// user is that of distroless images, which no machine has by chance.
	user = 65532
)

// release is what the images of all architectures share.
type release struct {
	version, commit string
	at              time.Time
	license, notice []byte
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	version, commit := flags.String("version", "", "version"), flags.String("commit", "", "commit")
	timestamp := flags.Int64("timestamp", 0, "time of the commit, in seconds since 1970")
	license, notice := flags.String("license", "", "file"), flags.String("notice", "", "file")
	out := flags.String("out", "", "folder of the layout, which does not exist")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r := release{version: *version, commit: *commit, at: time.Unix(*timestamp, 0).UTC()}
	var failed [2]error
	r.license, failed[0] = os.ReadFile(*license)
	r.notice, failed[1] = os.ReadFile(*notice)
	if err := errors.Join(failed[:]...); err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range flags.Args() {
		arch, binary, _ := strings.Cut(arg, "=")
		image, err := r.image(arch, binary)
		if err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	index = mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	folder, err := layout.Write(*out, empty.Index)
	if err != nil {
		return err
	}
	// Podman reads the first name, and containerd the second one.
	return folder.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": name + ":" + r.version, "io.containerd.image.name": name + ":" + r.version,
	}))
}

func (r release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         "Linkforge",
		"org.opencontainers.image.description":   "A link shortener with a console, a GraphQL API and exact analytics.",
		"org.opencontainers.image.url":           source,
		"org.opencontainers.image.source":        source,
		"org.opencontainers.image.documentation": source + "/blob/main/docs/guide/self-hosting.md",
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.vendor":        "Linkforge",
		"org.opencontainers.image.version":       r.version,
		"org.opencontainers.image.revision":      r.commit,
		"org.opencontainers.image.created":       r.at.Format(time.RFC3339),
	}
}

// image is that of one architecture, with one layer.
func (r release) image(arch, binary string) (v1.Image, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	files, err := r.files(content)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: r.at}, CreatedBy: source}}); err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: r.at}
	file.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Entrypoint:   []string{"/linkforge"},
		Env:          []string{"LINKFORGE_DATA_DIR=/data"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Volumes:      map[string]struct{}{"/data": {}},
		Labels:       r.labels(),
		// An extension of Docker, which OCI leaves to others.
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/linkforge", "healthcheck"}, Interval: 10 * time.Second,
			Timeout: 6 * time.Second, StartPeriod: 30 * time.Second, Retries: 3},
	}
	return mutate.ConfigFile(image, file)
}

// files is the archive of an image's files. The program embeds its time zones.
func (r release) files(binary []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range []struct {
		name        string
		owner, mode int
		content     []byte
	}{
		{"data/", user, 0o700, nil}, {"tmp/", 0, 0o1777, nil},
		{"etc/", 0, 0o755, nil}, {"etc/ssl/", 0, 0o755, nil}, {"etc/ssl/certs/", 0, 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0, 0o644, roots()}, {"linkforge", 0, 0o755, binary},
		{"licenses/", 0, 0o755, nil}, {"licenses/LICENSE", 0, 0o644, r.license},
		{"licenses/NOTICE", 0, 0o644, r.notice},
	} {
		head := tar.Header{Typeflag: tar.TypeReg, Name: f.name, Uid: f.owner, Gid: f.owner, Mode: int64(f.mode),
			Size: int64(len(f.content)), ModTime: r.at, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.name, "/") {
			head.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&head); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return packed.Bytes(), err
}

// roots are the authorities that Mozilla trusts without a condition, which the format could not state.
func roots() (all []byte) {
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return all
}
