package acme

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/lease"
	"github.com/linkforge/linkforge/internal/platform/poll"
)

const (
	// lockPrefix is that of the leases that are locks: others are jobs.
	lockPrefix = "certificates: "
	// minLockPause is the time between the first attempts to take a lock, which doubles up to maxLockPause.
	minLockPause = 500 * time.Millisecond
	maxLockPause = 8 * time.Second
)

// lock is a row of leases. The lock exists while it is held, or until CleanUp if its node has died.
type lock struct {
	bun.BaseModel `bun:"table:leases"`

	Name  string `bun:",pk"`
	DueAt time.Time
}

// hold is a lock that this process has: a goroutine renews it until Unlock.
type hold struct {
	lease lease.Lease
	stop  context.CancelFunc
	ended chan struct{}
}

// Lock implements certmagic.Locker. Other nodes get the lock of a node that dies after lease.Life.
func (f *Files) Lock(ctx context.Context, name string) error {
	for pause := minLockPause; ; pause = min(2*pause, maxLockPause) {
		took, err := f.TryLock(ctx, name)
		if took || err != nil {
			return err
		}
		if err := poll.Wait(ctx, pause); err != nil {
			return err
		}
	}
}

// TryLock implements certmagic.TryLocker.
func (f *Files) TryLock(ctx context.Context, name string) (took bool, err error) {
	h := hold{lease: lease.New(f.Now, time.Time{}), ended: make(chan struct{})}
	row := &lock{Name: lockPrefix + name, DueAt: time.Unix(0, 0)} // due for no job
	doing, cancel := statement(ctx)
	defer cancel()
	var n int64
	if _, err = f.DB.NewInsert().Model(row).On("CONFLICT DO NOTHING").Exec(doing); err == nil {
		n, err = db.Affected(h.lease.Take(f.row(name)).Exec(doing))
	}
	if err != nil || n == 0 {
		return false, lockError(err)
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	h.stop = stop
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		f.held = map[string]hold{}
	}
	f.held[name] = h
	go func() {
		defer close(h.ended)
		for poll.Wait(renewing, lease.RenewEvery) == nil && h.lease.Renew(renewing, f.row(name)) == nil {
		}
	}()
	return true, nil
}

func lockError(err error) error {
	if err != nil {
		return fmt.Errorf("locking TLS certificates: %w", err)
	}
	return nil
}

func (f *Files) row(name string) *bun.UpdateQuery {
	return f.DB.NewUpdate().Model((*lock)(nil)).Where("name = ?", lockPrefix+name)
}

// Unlock implements certmagic.Locker.
func (f *Files) Unlock(ctx context.Context, name string) error {
	f.mu.Lock()
	h, isHeld := f.held[name]
	delete(f.held, name)
	f.mu.Unlock()
	if !isHeld {
		return errors.New("unlocking TLS certificates that are not locked here")
	}
	h.stop()
	<-h.ended
	ctx, cancel := statement(ctx)
	defer cancel()
	_, err := f.DB.NewDelete().Model((*lock)(nil)).Where("name = ?", lockPrefix+name).
		Where("lease_holder = ?", h.lease.Holder).Exec(ctx)
	return lockError(err)
}
