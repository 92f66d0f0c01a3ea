package main

import (
	"io"
	"log/slog"
)

// newLogger writes structured lines to w: JSON for machines, key=value text for people.
func newLogger(w io.Writer, json bool, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
