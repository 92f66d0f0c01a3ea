package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/platform/ratelimit"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/visit/resolve"
	"github.com/linkforge/linkforge/internal/visit/visitorpage"
)

// The images per client address. Rendering a PNG image takes milliseconds of a processor, an SVG document
// hardly more than its statements.
var (
	pngImages = ratelimit.Rate{Name: "qr-png", Attempts: 60, Window: time.Minute}
	svgImages = ratelimit.Rate{Name: "qr-svg", Attempts: 600, Window: time.Minute}
)

// qrTypes are the media types of the images.
var qrTypes = map[qr.Format]string{qr.SVG: "image/svg+xml", qr.PNG: "image/png"}

// qrFormat returns the format of the image that an address names: /CODE.svg or /CODE.png. It is empty for all
// other addresses. Only codes of domains have dots: see isOfRedirect.
func qrFormat(at resolve.Address) qr.Format {
	switch {
	case at.Path != "" && at.Path != "/":
		return ""
	case strings.HasSuffix(at.Code, "."+string(qr.SVG)):
		return qr.SVG
	case strings.HasSuffix(at.Code, "."+string(qr.PNG)):
		return qr.PNG
	}
	return ""
}

// qrImage responds with the QR code of an active link in the saved style of its workspace. A request for any
// other link counts as an unknown code for the client's network, like one for its stats page.
func (a *app) qrImage(w http.ResponseWriter, r *http.Request, at resolve.Address) {
	format := qrFormat(at)
	at = at.TrimSuffix("." + string(format))
	rate := svgImages
	if format == qr.PNG {
		rate = pngImages
	}
	var image []byte
	err := a.findLink(r, rate, func(ctx context.Context) (err error) {
		image, err = a.renderQR(ctx, at, r.URL.Query().Get(routing.SourceParameter), format)
		return err
	})
	if err != nil {
		a.refuse(w, r, err, "rendering a QR code failed", func() {
			visitorpage.WriteEnglish(w, r, http.StatusNotFound, "No QR code available",
				"This link does not exist, or is not active.")
		})
		return
	}
	head := w.Header()
	head.Set("Content-Type", qrTypes[format])
	head.Set("Cache-Control", "public, max-age=3600")
	head.Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(image)))
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("X-Robots-Tag", "noindex")
	head.Set("Content-Security-Policy", "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(image))
}

// renderQR returns the image of the link at an address. It returns NotFound for a link that is not active, or
// does not declare the source.
func (a *app) renderQR(ctx context.Context, at resolve.Address, source string, format qr.Format) ([]byte, error) {
	l, err := a.Links.At(ctx, at)
	if err != nil {
		return nil, err
	}
	if l.Status(a.now()) != routing.Active {
		return nil, errs.New(errs.NotFound, "There is no active link.")
	}
	if l.In, err = a.Workspaces.Observe(ctx, l.WorkspaceID); err != nil {
		return nil, err
	}
	text, err := a.Links.QRText(l, source)
	if err != nil {
		return nil, errs.New(errs.NotFound, "The link does not declare this source.").Because(err)
	}
	style, err := a.Workspaces.QRStyle(ctx, l.In)
	if err != nil {
		return nil, err
	}
	return a.codes.Render(ctx, optional.Or(l.CreatedBy, l.WorkspaceID), text, &style, format)
}
