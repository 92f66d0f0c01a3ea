package cli

import (
	"fmt"

	"github.com/linkforge/linkforge"
)

// schemaCommand is `linkforge schema`.
type schemaCommand struct{}

// Run prints the schema's SDL.
func (schemaCommand) Run(io IO) error {
	_, err := fmt.Fprint(io.Out, linkforge.Schema)
	return err
}
