package acme

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/lease"
)

const (
	certificatesFolder = "certificates" // of CertMagic
	pausesFolder       = "pauses"
	// hostsAtOnce is how many hosts are looked up at once.
	hostsAtOnce = 500
	// expiredFor is how long expired certificates stay: the clock of one node may be ahead.
	expiredFor = 14 * 24 * time.Hour
	// challengeLife is longer than any order takes.
	challengeLife = 24 * time.Hour
)

// CleanUp deletes the files of hosts that may have no certificate any more, once a day the certificates that have
// expired long ago, and what nodes have left that died during an order. mayHave returns which hosts may have one.
func (f *Files) CleanUp(
	ctx context.Context, mayHave func(ctx context.Context, hosts []string) (map[string]bool, error),
) error {
	folders, err := f.hostFolders(ctx)
	if err != nil {
		return err
	}
	hosts := make([]string, 0, len(folders))
	for host := range folders {
		hosts = append(hosts, host)
	}
	for some := range slices.Chunk(hosts, hostsAtOnce) {
		may, err := mayHave(ctx, some)
		if err != nil {
			return err
		}
		for _, host := range some {
			if may[host] {
				continue
			}
			for _, folder := range folders[host] {
				if err := f.Delete(ctx, folder); err != nil {
					return err
				}
			}
		}
	}
	if err := f.deleteLeftovers(ctx); err != nil {
		return err
	}
	return certmagic.CleanStorage(ctx, f, certmagic.CleanStorageOptions{
		Logger: zap.NewNop(), Interval: 24 * time.Hour, ExpiredCerts: true, ExpiredCertGracePeriod: expiredFor,
	})
}

// hostFolders returns the names of the files and folders that belong to a host, by host.
func (f *Files) hostFolders(ctx context.Context) (map[string][]string, error) {
	ctx, cancel := statement(ctx)
	defer cancel()
	var names []string
	err := f.DB.NewSelect().Model((*file)(nil)).Column("name").
		Where("name LIKE ? OR name LIKE ?", certificatesFolder+"/%.crt", pausesFolder+"/%").Scan(ctx, &names)
	if err != nil {
		return nil, fmt.Errorf("listing hosts with TLS certificates: %w", err)
	}
	folders := map[string][]string{}
	for _, name := range names {
		host, folder := strings.TrimSuffix(path.Base(name), path.Ext(name)), name
		if strings.HasPrefix(name, certificatesFolder) {
			folder = path.Dir(name)
		}
		folders[host] = append(folders[host], folder)
	}
	return folders, nil
}

// deleteLeftovers deletes challenges and locks of nodes that died during an order.
func (f *Files) deleteLeftovers(ctx context.Context) error {
	ctx, cancel := statement(ctx)
	defer cancel()
	now := f.Now()
	_, err := f.DB.NewDelete().Model((*file)(nil)).Where("name LIKE 'acme/%/challenge_tokens/%'").
		Where("modified_at < ?", db.Instant(now.Add(-challengeLife))).Exec(ctx)
	if err == nil {
		_, err = f.DB.NewDelete().Model((*lock)(nil)).Where("name LIKE ?", lockPrefix+"%").
			Where("?", lease.Free(now)).Exec(ctx)
	}
	if err != nil {
		return fmt.Errorf("deleting leftovers of TLS certificates: %w", err)
	}
	return nil
}
