package cli

import (
	"fmt"

	"github.com/linkforge/linkforge"
)

// schemaCommand is `linkforge schema`.
type schemaCommand struct {
	Subgraph bool `help:"Print it as a subgraph of Apollo Federation 2."`
}

// Run prints the schema's SDL.
func (c schemaCommand) Run(io IO) error {
	text := linkforge.Schema
	if c.Subgraph {
		text = linkforge.Subgraph
	}
	_, err := fmt.Fprint(io.Out, text)
	return err
}
