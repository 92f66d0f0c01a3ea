package webhook_test

import (
	"strings"
	"testing"

	"github.com/linkforge/linkforge/internal/audit"
	"github.com/linkforge/linkforge/internal/db"
	"github.com/linkforge/linkforge/internal/dbtest"
)

// TestDispatcher_AnnouncesAfterACrash has a webhook whose node died after it had disabled the webhook: two other nodes
// send one email.
func TestDispatcher_AnnouncesAfterACrash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		b := setup(t, d)
		b.create(t, "http://127.0.0.1:9999/", audit.LinkUpdated)
		b.exec(t, "UPDATE webhooks SET status = 'DISABLED', notice = 'RECEIVER'")
		other := *b
		other.dispatcher = b.newDispatcher(b.dispatcher.Log)
		b.run(t)
		other.run(t)
		until(t, "an email is sent", func() bool { return len(b.mails.sent()) > 0 })
		until(t, "the notice is removed", func() bool {
			n, err := d.NewSelect().Table("webhooks").Where("notice IS NULL").Count(db.AsSystem(t.Context()))
			return n == 1 && err == nil
		})
		if got := b.mails.sent(); len(got) != 1 || !strings.Contains(got[0], "did not accept requests") {
			t.Errorf("emails %q", got)
		}
	})
}
