package importer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/move/importsource"
	"github.com/linkforge/linkforge/internal/move/task"
	"github.com/linkforge/linkforge/internal/platform/optional"
	"github.com/linkforge/linkforge/internal/tenant/workspace"
)

// maxCounted bounds the losses, the hosts and the ignored fields that a report counts.
const maxCounted = 100

// maxKept is how many rows with the outcome FAILED, and how many with SKIPPED, a report keeps.
const maxKept = 5000

// progress is the cursor of an import: the totals of the rows that are imported.
type progress struct {
	// Fetch is the cursor of the next page of an API. Chunks, Items and Bytes count the content of
	// the file so far.
	Fetch     string `json:"fetch,omitempty"`
	Chunks    int    `json:"chunks,omitempty"`
	Items     int    `json:"items,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
	IsFetched bool   `json:"isFetched,omitempty"`
	// Answers are small responses of the page that is being fetched, by their requests.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`

	Rows int64 `json:"rows"`
	// New counts the links that were inserted.
	New int64 `json:"new,omitempty"`
	// Ended counts the links that were created or changed, and whose end has passed.
	Ended  int64             `json:"ended,omitempty"`
	Counts map[Outcome]int64 `json:"counts"`
	// Losses are counted by field and reason, with a space between them.
	Losses map[string]int64 `json:"losses"`
	Hosts  map[string]int64 `json:"hosts"`
	// Targets are the domains of hosts, by their ids.
	Targets map[string]string `json:"targets,omitempty"`
	Ignored []string          `json:"ignored"`
	// Folding are the hosts whose codes the source answers in any case, and their domain does not.
	Folding []string `json:"folding"`
}

func progressOf(t *task.Task) (*progress, error) {
	p := &progress{Counts: map[Outcome]int64{}, Losses: map[string]int64{}, Hosts: map[string]int64{}}
	if t.Cursor == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(t.Cursor), p); err != nil {
		return nil, fmt.Errorf("decoding the progress of an import: %w", err)
	}
	return p, nil
}

// keep returns the rows whose outcomes are stored.
func (p *progress) keep(items []*item) (kept []*Row) {
	more := map[Outcome]int64{}
	for _, it := range items {
		row := it.written
		if row.Outcome == Failed || row.Outcome == Skipped {
			if more[row.Outcome]++; p.Counts[row.Outcome]+more[row.Outcome] > maxKept {
				continue
			}
		}
		kept = append(kept, row)
	}
	return kept
}

// with returns the progress after more rows.
func (p *progress) with(items []*item, folding []string, targets map[string]string) *progress {
	next := &progress{
		Chunks: p.Chunks, IsFetched: p.IsFetched, Rows: p.Rows + int64(len(items)), Counts: maps.Clone(p.Counts),
		Losses: maps.Clone(p.Losses), Hosts: maps.Clone(p.Hosts),
		Ignored: slices.Clone(p.Ignored), Folding: folding, Targets: map[string]string{}, New: p.New,
		Ended: p.Ended,
	}
	maps.Copy(next.Targets, p.Targets)
	maps.Copy(next.Targets, targets)
	for _, it := range items {
		row := it.written
		if next.Counts[row.Outcome]++; row.isNew {
			next.New++
		}
		if row.hasEnded {
			next.Ended++
		}
		if row.Host != "" {
			next.Hosts[row.Host]++
		}
		counted := map[string]bool{}
		for _, loss := range it.from.Losses {
			if key := loss.Field + " " + string(loss.Reason); !counted[key] {
				counted[key] = true
				next.Losses[key]++
			}
		}
		next.Ignored = append(next.Ignored, it.from.Ignored...)
	}
	slices.Sort(next.Ignored)
	next.Ignored = slices.Compact(next.Ignored)
	next.Ignored = next.Ignored[:min(len(next.Ignored), maxCounted)]
	keepMost(next.Losses)
	keepMost(next.Hosts)
	maps.DeleteFunc(next.Targets, func(host, _ string) bool { return next.Hosts[host] == 0 })
	return next
}

// keepMost removes the smallest counts beyond maxCounted. A removed name begins at zero again, so
// numbers beyond are approximate.
func keepMost(counts map[string]int64) {
	if len(counts) > maxCounted {
		for _, name := range byCount(counts)[maxCounted:] {
			delete(counts, name)
		}
	}
}

// byCount returns the names of counts, the largest first.
func byCount(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
}

// Report has the counts of an import so far.
type Report struct {
	*task.Task
	Settings
	progress *progress
}

// ReportOf returns the report of an import; nil before the first step. The import of a dry run
// without rows has no step.
func ReportOf(t *task.Task) (*Report, error) {
	if t.Cursor == "" && t.Status != task.Succeeded {
		return nil, nil
	}
	in, err := SettingsOf(t)
	if err != nil {
		return nil, err
	}
	p, err := progressOf(t)
	return &Report{Task: t, Settings: in, progress: p}, err
}

// OutcomeCount, LossCount and HostCount are numbers of rows.
type (
	OutcomeCount struct {
		Outcome Outcome
		Rows    int64
	}
	LossCount struct {
		Field  string
		Reason importsource.LossReason
		Rows   int64
	}
	HostCount struct {
		Host string
		Rows int64
		// DomainID is the domain whose own codes the links of the host get; nil means the shared
		// codes. In is the membership through which the task was loaded.
		DomainID *string
		In       workspace.Membership
	}
)

// Counts returns the numbers of rows by outcome.
func (r *Report) Counts() (all []*OutcomeCount) {
	for _, outcome := range []Outcome{Created, Updated, Unchanged, Renamed, Closed, Skipped, Failed} {
		if n := r.progress.Counts[outcome]; n > 0 {
			all = append(all, &OutcomeCount{outcome, n})
		}
	}
	return all
}

// Losses returns the losses, the most frequent first.
func (r *Report) Losses() (all []*LossCount) {
	for _, key := range byCount(r.progress.Losses) {
		i := strings.LastIndexByte(key, ' ')
		all = append(all, &LossCount{key[:i], importsource.LossReason(key[i+1:]), r.progress.Losses[key]})
	}
	return all[:min(len(all), maxCounted)]
}

// HostCounts returns the hosts, the most frequent first.
func (r *Report) HostCounts() (all []*HostCount) {
	for _, host := range byCount(r.progress.Hosts) {
		all = append(all, &HostCount{
			Host: host, Rows: r.progress.Hosts[host], DomainID: optional.Of(r.progress.Targets[host]), In: r.In,
		})
	}
	return all[:min(len(all), maxCounted)]
}

// IgnoredFields returns the names of fields that are ignored.
func (r *Report) IgnoredFields() []string { return r.progress.Ignored }

// Operation returns the id of the operation that the versions of the links carry; nil if no link has
// been created or changed, as in a dry run.
func (r *Report) Operation() *string {
	counts := r.progress.Counts
	if r.DryRun || counts[Created]+counts[Updated]+counts[Renamed]+counts[Closed] == 0 {
		return nil
	}
	return optional.Of(r.OperationID)
}

// Ended returns how many of the links that were created or changed have ended already.
func (r *Report) Ended() int64 { return r.progress.Ended }
