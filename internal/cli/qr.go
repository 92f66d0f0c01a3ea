package cli

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/platform/qr"
	"github.com/linkforge/linkforge/internal/platform/urlnorm"
)

// qrCommand is `linkforge qr`.
type qrCommand struct {
	URL        string `arg:"" name:"url" help:"The URL to encode, for example a short URL."`
	Format     string `enum:"svg,png" default:"svg" help:"svg or png."`
	Size       int    `default:"512" help:"Width of the PNG image in pixels, 128 to 2048."`
	Margin     int    `default:"4" help:"Margin in modules, 4 to 16."`
	Level      string `default:"MEDIUM" help:"LOW, MEDIUM, QUARTILE or HIGH. A logo needs HIGH."`
	Foreground string `default:"#000000" help:"Color of the modules."`
	Background string `default:"#ffffff" help:"Color behind the modules."`
	Logo       string `type:"existingfile" placeholder:"FILE" help:"PNG or JPEG image of at most 64 KiB."`
	Output     string `type:"path" placeholder:"FILE" help:"File to write; without it, standard output."`
}

// Run writes the image, without a database. It has the bytes of the public images of a link in a
// workspace with the same style.
func (c qrCommand) Run(io IO) error {
	if _, err := urlnorm.Canonical(c.URL); err != nil {
		refused, _ := errors.AsType[*urlnorm.Error](err)
		return fmt.Errorf("%s", refused.Reason)
	}
	style, err := c.style()
	if err == nil {
		err = style.Verify(c.URL)
	}
	if err != nil {
		return err
	}
	image, err := qr.Render(c.URL, &style, qr.Format(c.Format))
	if err != nil {
		return err
	}
	if c.Output != "" {
		err = os.WriteFile(c.Output, image, 0o644)
	} else {
		_, err = io.Out.Write(image)
	}
	if err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return nil
}

func (c qrCommand) style() (qr.Style, error) {
	change := qr.Change{
		Size: optional.Set(&c.Size), Margin: optional.Set(&c.Margin), Level: optional.Set((*qr.Level)(&c.Level)),
		Foreground: optional.Set(&c.Foreground), Background: optional.Set(&c.Background),
	}
	if c.Logo != "" {
		logo, err := os.ReadFile(c.Logo)
		if err != nil {
			return qr.Style{}, fmt.Errorf("reading the logo: %w", err)
		}
		change.Logo = optional.Set(new(base64.StdEncoding.EncodeToString(logo)))
	}
	return change.Apply(qr.Default())
}
