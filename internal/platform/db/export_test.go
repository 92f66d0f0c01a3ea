package db

// WaitingTurns is the number of statements and transactions that wait for their owner's turn.
func (d *DB) WaitingTurns() int {
	_, waiting := d.turns.Writes.Stats()
	return waiting
}

// UsedTurns is the number of turns that have not ended.
func (d *DB) UsedTurns() int64 {
	reads, _ := d.turns.Reads.Stats()
	writes, _ := d.turns.Writes.Stats()
	return reads + writes
}
