package graph

import (
	"context"
	"strings"

	"github.com/linkforge/linkforge/graph/gen"
	"github.com/linkforge/linkforge/graph/loader"
	"github.com/linkforge/linkforge/internal/link"
	"github.com/linkforge/linkforge/internal/link/shortcode"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/route/routing"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// qrChange returns the change of a style; nil for none.
func qrChange(in *gen.QRStyleInput) *qr.Change {
	if in == nil {
		return nil
	}
	return &qr.Change{
		Size: gen.SetOrRemove(in.Size), Margin: gen.SetOrRemove(in.Margin), Level: gen.SetOrRemove(in.Level),
		Foreground: gen.SetOrRemove(in.Foreground), Background: gen.SetOrRemove(in.Background),
		Logo: gen.SetOrRemove(in.Logo),
	}
}

func (r *workspaceResolver) QRStyle(_ context.Context, m *workspace.Membership) (*qr.Style, error) {
	return new(qr.OrDefault(m.Workspace().QRStyle)), nil
}

func (r *linkResolver) QRCode(
	ctx context.Context, l *link.Link, source *string, in *gen.QRStyleInput,
) (*gen.QRCode, error) {
	text, err := r.Links.QRText(l, optional.Value(source))
	var style *qr.Style
	if in != nil {
		given, styleErr := qrChange(in).Apply(qr.Default())
		style, err = &given, errs.All(err, errs.Under(styleErr, "style"))
	}
	if err != nil {
		return nil, err
	}
	if points := (len(text) - cheapText) / charactersPerPoint; points > 0 {
		if err := r.cost.ChargeWork(ctx, points); err != nil {
			return nil, err
		}
	}
	code, err := r.qrCode(ctx, l, style, text)
	if err != nil {
		return nil, err
	}
	shortURL := r.Links.ShortURL(l)
	return &gen.QRCode{
		Text: text, SVG: code.SVG(), Modules: code.Modules(),
		SVGURL: qrImageURL(shortURL, qr.SVG, optional.Value(source)),
		PngURL: qrImageURL(shortURL, qr.PNG, optional.Value(source)),
	}, nil
}

// qrStyles returns the style of a workspace by its id.
func (c *Config) qrStyles(ctx context.Context, m workspace.Membership, _ ...string) (map[string]*qr.Style, error) {
	style, err := c.Workspaces.QRStyle(ctx, m)
	return map[string]*qr.Style{m.ID(): &style}, err
}

// verifyQR checks that codes of the texts in a style can be read, and charges the caller for the
// work. It returns InvalidInput, RateLimited or Unavailable.
func (r *resolver) verifyQR(ctx context.Context, style *qr.Style, texts ...string) error {
	return r.Codes.Verify(ctx, owner(ctx), r.chargePixels, style, texts...)
}

func (r *resolver) chargePixels(ctx context.Context, pixels int) error {
	return r.cost.ChargeWork(ctx, pixels/pixelsPerPoint)
}

// qrCode returns the code in the given style, which must keep it readable, or in the saved one.
func (r *linkResolver) qrCode(
	ctx context.Context, l *link.Link, style *qr.Style, text string,
) (code *qr.Code, err error) {
	if style == nil {
		style, err = loader.Of(ctx).In(l.In).QRStyles.Get(ctx, l.WorkspaceID)
		if err != nil {
			return nil, err
		}
		return qr.New(text, style)
	}
	if code, err = qr.New(text, style); err == nil {
		err = r.Codes.VerifyCode(ctx, owner(ctx), (*resolver)(r).chargePixels, code)
	}
	if err != nil {
		return nil, errs.From(err).Under("style")
	}
	return code, nil
}

// qrImageURL returns the public address of an image of a link's QR code.
func qrImageURL(shortURL string, format qr.Format, source string) string {
	return routing.WithSource(shortURL+"."+string(format), source)
}

// qrTexts returns the shortest and the longest text that a QR code of a link in the workspace
// encodes.
func (c *Config) qrTexts(m workspace.Membership) []string {
	shortest := &link.Link{In: m, Code: strings.Repeat("a", shortcode.MinLength)}
	shortest.RootCode = &shortest.Code
	longest := &link.Link{In: m, Code: strings.Repeat("a", shortcode.MaxLength)}
	return []string{
		c.Links.ShortURL(shortest),
		routing.WithSource(c.Links.ShortURL(longest), strings.Repeat("a", routing.MaxSource)),
	}
}
