package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/linkforge/linkforge/bench/internal/rig"
)

// pgbenchEnvironment tells where the database is. Not on the command line, which everybody on the
// machine can read.
func pgbenchEnvironment(databaseURL string) ([]string, error) {
	c, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, rig.ErrURL
	}
	return append(rig.CleanEnvironment(), "PGHOST="+c.Host, "PGPORT="+strconv.Itoa(int(c.Port)), "PGUSER="+c.User,
		"PGPASSWORD="+c.Password,
		"PGDATABASE="+c.Database), nil
}

// pgbenchSlack is for what pgbench does before and after a burst.
const pgbenchSlack = 2 * time.Second

// measureSQL has pgbench run a script for a burst, over as many connections. It keeps a log of its
// transactions, of which those count that end within the burst: not what it costs to connect.
func (b *bench) measureSQL(ctx context.Context, script string) (f rig.Figures, err error) {
	folder, err := os.MkdirTemp(b.Folder, "pgbench.")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	cmd, err := b.pgbench(ctx, folder, script)
	if err != nil {
		return f, err
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return f, err
	}
	from, used, err := b.watchSQL(ctx, cmd, folder)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return f, fmt.Errorf("pgbench: %w\n%s", err, said.String())
	}
	times, err := readLogs(folder, from, from.Add(used.At))
	if err != nil {
		return f, err
	}
	n := float64(max(len(times), 1))
	f = rig.Figures{
		Rate: float64(len(times)) / used.At.Seconds(), Own: rig.Micros(used.Own) / n, Beside: rig.Micros(used.Beside) / n,
		P50: rig.Millis(rig.Percentile(times, 0.5)), P99: rig.Millis(rig.Percentile(times, 0.99)),
	}
	b.Others = append(b.Others, max(0, (used.Machine-used.Own-used.Beside).Seconds()/used.At.Seconds()))
	return f, nil
}

func (b *bench) pgbench(ctx context.Context, folder, script string) (*exec.Cmd, error) {
	file := filepath.Join(folder, "script.sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return nil, err
	}
	env, err := pgbenchEnvironment(b.Services.DatabaseURL)
	if err != nil {
		return nil, err
	}
	seconds := math.Ceil((warmUpTime + b.burst + pgbenchSlack).Seconds())
	cmd := exec.CommandContext(ctx, b.pgbenchBinary, "--no-vacuum", "--protocol=extended", "--define=fresh=1",
		"--file="+file,
		"--client="+strconv.Itoa(b.connections), "--jobs="+strconv.Itoa(min(2, b.connections)),
		"--time="+strconv.Itoa(int(seconds)), "--log", "--log-prefix="+filepath.Join(folder, "log"))
	cmd.Env = env
	return cmd, nil
}

// watchSQL tells when a burst began, once all connections are there, and what was used in it.
func (b *bench) watchSQL(
	ctx context.Context, cmd *exec.Cmd, folder string,
) (from time.Time, used rig.Usage, err error) {
	for deadline := time.Now().Add(30 * time.Second); !hasLog(folder); {
		if time.Now().After(deadline) {
			return from, used, errors.Join(errors.New("no transaction has ended"), cmd.Process.Kill())
		}
		if err := rig.Pause(ctx, 20*time.Millisecond); err != nil {
			return from, used, err
		}
	}
	if err := rig.Pause(ctx, warmUpTime); err != nil {
		return from, used, err
	}
	from = time.Now()
	before, err := rig.Used([]int{cmd.Process.Pid}, b.Services.PIDs())
	if err != nil {
		return from, used, err
	}
	if err := rig.Pause(ctx, b.burst); err != nil {
		return from, used, err
	}
	after, err := rig.Used([]int{cmd.Process.Pid}, b.Services.PIDs())
	return from, after.Minus(before), err
}

// hasLog says that transactions have ended. pgbench begins with none before it has all its
// connections.
func hasLog(folder string) bool {
	logs, _ := filepath.Glob(filepath.Join(folder, "log.*"))
	for _, log := range logs {
		if info, err := os.Stat(log); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}

// readLogs is how long the transactions took that ended within a time.
func readLogs(folder string, from, to time.Time) (times []time.Duration, err error) {
	logs, err := filepath.Glob(filepath.Join(folder, "log.*"))
	if err != nil {
		return nil, err
	}
	for _, log := range logs {
		file, err := os.Open(log)
		if err != nil {
			return nil, err
		}
		times, err = readLog(file, times, from, to)
		file.Close()
		if err != nil {
			return nil, err
		}
	}
	return times, nil
}

// readLog reads lines of client, transaction, microseconds, script, and the second and microsecond
// of its end (https://www.postgresql.org/docs/current/pgbench.html).
func readLog(log io.Reader, times []time.Duration, from, to time.Time) ([]time.Duration, error) {
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			return nil, fmt.Errorf("no line of pgbench's log: %q", lines.Text())
		}
		var numbers [3]int64
		for i, field := range []int{2, 4, 5} {
			n, err := strconv.ParseInt(fields[field], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("no line of pgbench's log: %q", lines.Text())
			}
			numbers[i] = n
		}
		if end := time.Unix(numbers[1], numbers[2]*1000); !end.Before(from) && end.Before(to) {
			times = append(times, time.Duration(numbers[0])*time.Microsecond)
		}
	}
	return times, lines.Err()
}
