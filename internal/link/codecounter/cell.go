package codecounter

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
)

// A cell is a server with a database of its own. Cells that share their code secrets issue
// different codes, because each has a part of the counters.
const (
	// Cells is the number of cells.
	Cells = 50
	// cellSize is the number of counters of a cell; 50 of them are nearly all.
	cellSize = 1 << 36
)

// firstOf returns the first counter of a cell.
func firstOf(cell int) uint64 { return uint64(cell) * cellSize }

// pinCell records the cell of a database that has issued no codes. A database with codes and
// without a cell is cell 0. It returns an error for another cell than the recorded one: its codes
// would be those of another cell.
func (c *Counter) pinCell(ctx context.Context) error {
	own := strconv.Itoa(c.cell)
	kept, err := c.keep(ctx, "cell",
		bun.SafeQuery("CASE WHEN EXISTS (SELECT 1 FROM counters WHERE "+allEpochs+") THEN '0' ELSE ? END", own))
	if err == nil && kept != own {
		return fmt.Errorf("LINKFORGE_CELL is %s, and this database is that of cell %s: restore the setting. "+
			"A cell begins with an empty database, and keeps its number", own, kept)
	}
	return err
}

// CellOf returns the cell of a database; 0 if none is recorded.
func CellOf(ctx context.Context, d *db.DB) (cell int, err error) {
	var value string
	err = d.NewSelect().Table("instance").Column("value").Where("name = 'cell'").Scan(ctx, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err == nil {
		cell, err = strconv.Atoi(value)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the cell: %w", err)
	}
	return cell, nil
}
