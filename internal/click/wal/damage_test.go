package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/linkforge/linkforge/internal/platform/must"
)

// lay makes the log of a process that has died: its files, by where they begin.
func lay(t *testing.T, segments map[int64][]byte) *Log {
	t.Helper()
	j := &Log{dir: filepath.Join(t.TempDir(), "one")}
	must.NoError(t, os.Mkdir(j.dir, 0o700))
	for begin, data := range segments {
		must.NoError(t, os.WriteFile(j.path(begin), data, 0o600))
	}
	found, err := Found(filepath.Dir(j.dir))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d journals found, want 1: %v", len(found), err)
	}
	t.Cleanup(func() { _ = found[0].Close() })
	return found[0]
}

// written is a segment with n records, as a log writes it.
func written(t testing.TB, n int) ([]byte, []Record) {
	t.Helper()
	j := create(t, segmentBytes)
	records := fill(t, j, n)
	data := must.Value(os.ReadFile(j.path(0)))(t)
	return data, records
}

// TestDamage_TornRecordIsSkipped cuts the file at every byte of its last record: the kernel had
// taken no more when the process was killed.
func TestDamage_TornRecordIsSkipped(t *testing.T) {
	t.Parallel()
	data, records := written(t, 40)
	whole := records[:len(records)-1]
	for size := whole[len(whole)-1].End; size < int64(len(data)); size++ {
		j := lay(t, map[int64][]byte{0: data[:size]})
		got, damaged := readAll(t, j, 0, 7)
		if !slices.EqualFunc(whole, got, same) || len(damaged) > 0 {
			t.Errorf("cut at %d: %d records and %d damaged bytes, want %d records", size, len(got), len(damaged),
				len(whole))
		}
		if end := whole[len(whole)-1].End; len(got) > 0 && got[len(got)-1].End != end {
			t.Errorf("cut at %d: the last record ends at %d, want %d", size, got[len(got)-1].End, end)
		}
		must.NoError(t, j.Close())
	}
}

// TestDamage_CostsNoOtherRecord damages each byte of each record but the last, which cannot be
// distinguished from one that was cut off.
func TestDamage_CostsNoOtherRecord(t *testing.T) {
	t.Parallel()
	first, records := written(t, 12)
	end := records[len(records)-1].End
	second, more := written(t, 3) // a segment that follows
	for _, r := range more {
		records = append(records, Record{r.Data, end + r.End})
	}
	j := lay(t, map[int64][]byte{0: first, end: second})
	for i, begin := 0, int64(0); i < 12; i++ {
		for at := begin; at < records[i].End; at++ {
			for _, flipped := range []byte{0x01, 0xff} {
				damage := slices.Clone(first)
				damage[at] ^= flipped
				must.NoError(t, os.WriteFile(j.path(0), damage, 0o600))
				got, damaged := readAll(t, j, 0, 5)
				if want := slices.Delete(slices.Clone(records), i, i+1); !slices.EqualFunc(want, got, same) {
					t.Fatalf("byte %d of record %d: %d records are read, want %d", at-begin, i, len(got), len(want))
				}
				if want := damage[begin:records[i].End]; !bytes.Equal(want, damaged) {
					t.Fatalf("byte %d of record %d: %q is damaged, want %q", at-begin, i, damaged, want)
				}
			}
		}
		begin = records[i].End
	}
}

// TestDamage_IsBounded: more than the longest record, and more than is read at a time.
func TestDamage_IsBounded(t *testing.T) {
	t.Parallel()
	data, records := written(t, 2000)
	for _, size := range []int{5000, headerBytes + MaxRecord, 100_000, readBytes, readBytes + 12_345, 3*readBytes - 1} {
		for _, where := range []int{0, 1000} {
			at := int64(0)
			if where > 0 {
				at = records[where-1].End
			}
			hole := slices.Repeat([]byte{0xee}, size)
			j := lay(t, map[int64][]byte{0: slices.Concat(data[:at], hole, data[at:])})
			got, damaged := readAll(t, j, 0, 5000)
			if len(got) != len(records) || !bytes.Equal(hole, damaged) {
				t.Errorf("%d bytes of damage after %d records: %d records and %d damaged bytes, want %d and %d",
					size, where, len(got), len(damaged), len(records), size)
			}
		}
	}
}

// TestDamage_LongRecordsAreFound: a record beyond the end of the buffer is read with the next one.
func TestDamage_LongRecordsAreFound(t *testing.T) {
	t.Parallel()
	j := create(t, segmentBytes)
	for range 40 {
		must.Value(j.Append(make([]byte, MaxRecord)))(t)
	}
	data := must.Value(os.ReadFile(j.path(0)))(t)
	for i := range 40 {
		damage := slices.Clone(data)
		damage[i*(headerBytes+MaxRecord)+headerBytes]++
		got, damaged := readAll(t, lay(t, map[int64][]byte{0: damage}), 0, 100)
		want := headerBytes + MaxRecord
		if i == 39 {
			want = 0 // it looks like a record that was cut off
		}
		if len(got) != 39 || len(damaged) != want {
			t.Errorf("record %d: %d records and %d damaged bytes, want 39 and %d", i, len(got), len(damaged), want)
		}
	}
}

// TestDamage_MissingOrShortSegment loses that segment's records only.
func TestDamage_MissingOrShortSegment(t *testing.T) {
	t.Parallel()
	j := create(t, 300)
	records := fill(t, j, 60)
	third := j.segments[2]
	data := must.Value(os.ReadFile(j.path(third.begin)))(t)
	next := leave(t, j)
	for _, left := range []int{len(data) - 1, 20, 0} {
		must.NoError(t, os.WriteFile(next.path(third.begin), data[:left], 0o600))
		again := leave(t, next)
		for name, j := range map[string]*Log{"found so": again, "while it was open": next} {
			got, _ := readAll(t, j, 0, 7)
			for _, r := range records {
				lost := r.End > third.begin && r.End <= third.end && r.End > third.begin+int64(left)
				if slices.ContainsFunc(got, func(g Record) bool { return same(g, r) }) == lost {
					t.Errorf("%s, cut to %d bytes: the record that ends at %d, lost is %t", name, left, r.End, lost)
				}
			}
		}
		next = again
	}
	must.NoError(t, os.Remove(next.path(third.begin)))
	got, damaged := readAll(t, leave(t, next), 0, 7)
	for _, r := range records {
		lost := r.End > third.begin && r.End <= third.end
		if slices.ContainsFunc(got, func(g Record) bool { return same(g, r) }) == lost || len(damaged) > 0 {
			t.Errorf("without the segment: the record that ends at %d, lost is %t; %d damaged bytes", r.End, lost,
				len(damaged))
		}
	}
}

// TestDamage_UnusedSpaceIsIgnored: a process that was killed leaves its last segment as long as it
// could have become.
func TestDamage_UnusedSpaceIsIgnored(t *testing.T) {
	t.Parallel()
	for _, turns := range []int64{1, 1000, 3 << 20} {
		j := createIn(t, t.TempDir(), "one", ample)
		j.turns = turns
		want := fill(t, j, 100)
		laid := map[int64][]byte{}
		for _, s := range j.segments {
			data := must.Value(os.ReadFile(j.path(s.begin)))(t)
			laid[s.begin] = data
		}
		for name, j := range map[string]*Log{"killed": lay(t, laid), "closed": leave(t, j)} {
			if got, damaged := readAll(t, j, 0, 7); !slices.EqualFunc(want, got, same) || len(damaged) > 0 {
				t.Errorf("%s, segments of %d: %d records and %d damaged bytes, want %d records", name, turns, len(got),
					len(damaged), len(want))
			}
		}
	}
}

// TestAppend_FailedWriteLeavesNothing fails in every record, with part of it written, even where
// that cannot be cut off.
func TestAppend_FailedWriteLeavesNothing(t *testing.T) {
	t.Parallel()
	j := create(t, 200)
	var want []Record
	for i := range 30 {
		if i > 0 {
			if err := j.tail.close(); err != nil { // from now on, writes fail, and so does cutting off
				t.Fatal(err)
			}
			last := j.segments[len(j.segments)-1]
			file := must.Value(os.OpenFile(j.path(last.begin), os.O_WRONLY|os.O_APPEND, 0))(t)
			must.Value(file.Write([]byte{40, 0, 0, 0, 1, 2, 3}))(t)
			_ = file.Close()
			if _, err := j.Append([]byte("lost")); err == nil {
				t.Fatal("a record was written to a closed file")
			}
		}
		data := fmt.Appendf(nil, "record %d", i)
		end := must.Value(j.Append(data))(t)
		want = append(want, Record{data, end})
	}
	for name, j := range map[string]*Log{"the same process": j, "the next": leave(t, j)} {
		if got, damaged := readAll(t, j, 0, 7); !slices.EqualFunc(want, got, same) || len(damaged) > 0 {
			t.Errorf("%s reads %d records and %d damaged bytes, want %d records", name, len(got), len(damaged),
				len(want))
		}
	}
}

// fixed is a tail with room for a number of bytes, like a full disk.
type fixed struct {
	tail
	room int
}

func (f *fixed) write(record []byte) error {
	if f.room -= len(record); f.room < 0 {
		return syscall.ENOSPC
	}
	return f.tail.write(record)
}

// TestAppend_RecoversFromAFullDisk: once all that is in it was released, a segment that could not
// grow makes room for the next.
func TestAppend_RecoversFromAFullDisk(t *testing.T) {
	t.Parallel()
	j := create(t, 1<<20)
	j.open = func(path string, _ int64) (tail, error) {
		plain, err := openPlain(path)
		return &fixed{plain, 100}, err
	}
	for range 3 {
		var end int64
		for {
			at, err := j.Append([]byte("a record"))
			if errors.Is(err, ErrFull) {
				break
			}
			must.NoError(t, err)
			end = at
		}
		if end == 0 {
			t.Fatal("there was no room")
		}
		must.NoError(t, j.Release(end))
		if j.End() != end {
			t.Errorf("the journal ends at %d, want %d", j.End(), end)
		}
	}
}

// TestOpen_ReportsAFailedFirstWrite leaves a segment without a record, which the next append
// re-creates.
func TestOpen_ReportsAFailedFirstWrite(t *testing.T) {
	t.Parallel()
	j := create(t, 200)
	must.NoError(t, j.turn(200))
	must.NoError(t, os.WriteFile(j.path(0), []byte("part of a record"), 0o600))
	must.NoError(t, j.tail.close())
	if _, err := j.Append([]byte("lost")); err == nil {
		t.Fatal("a record was written to a closed file")
	}
	want := fill(t, j, 3)
	if got, damaged := readAll(t, j, 0, 7); !slices.EqualFunc(want, got, same) || len(damaged) > 0 {
		t.Errorf("%d records and %d damaged bytes, want %d records", len(got), len(damaged), len(want))
	}
}

// FuzzRead reads damaged segments: reading ends, and returns the records around the damage.
func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{4, 0, 0, 0, 1, 2, 3, 4, 'd', 'a', 't', 'a'})
	f.Add(bytes.Repeat([]byte{0xff, 0x00}, 100))
	f.Add([]byte{255, 255, 0, 0})
	around, records := written(f, 2)
	f.Fuzz(func(t *testing.T, data []byte) {
		j := lay(t, map[int64][]byte{0: slices.Concat(around[:records[0].End], data, around[records[0].End:])})
		for _, most := range []int{1, 100} {
			got, damaged := readAll(t, j, 0, most)
			if len(got) < 2 || !bytes.Equal(got[0].Data, records[0].Data) ||
				!bytes.Equal(got[len(got)-1].Data, records[1].Data) {
				t.Errorf("%d records, want those around the damage", len(got))
			}
			size := len(damaged)
			for _, r := range got {
				size += headerBytes + len(r.Data)
			}
			if int64(size) != j.End() {
				t.Errorf("%d bytes of %d are accounted for", size, j.End())
			}
		}
	})
}
