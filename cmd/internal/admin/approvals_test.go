package admin_test

import (
	"path/filepath"
	"strings"
	"testing"

	"hermesd/cmd/internal/admin"
	"hermesd/gateway/access"
	"hermesd/gateway/approval"
	"hermesd/gateway/chat"
	"hermesd/gateway/schedule"
	"hermesd/internal/secret"
	"hermesd/storage/bolt"
)

func TestApprovalsAreListedAddedAndRemoved(t *testing.T) {
	s, err := bolt.Open(t.Context(), filepath.Join(t.TempDir(), "hermesd.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	jobs, m, mask := schedule.NewManager(s, schedule.Validator{Zone: "UTC"}, nil), approval.NewManager(s), &secret.Masker{}
	mask.Add("sk-very-secret")
	c := admin.Local(admin.NewHandler(admin.Options{Store: filled(t), Approvals: m, Cron: jobs, Masker: mask}))
	ends(t, c.Close)
	ctx, every, prompt, name := t.Context(), "every 1h", "look", "Nightly"
	if _, err := jobs.Create(ctx, schedule.OperatorCaller(), "aaaaaaaaaaaa", schedule.JobPatch{Schedule: &every, Prompt: &prompt, Name: &name}); err != nil {
		t.Fatal(err)
	}
	if list, err := c.Approvals(ctx); err != nil || list == nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	ann := access.Principal{Platform: chat.Telegram, ID: "7", Level: access.Owner}
	if err := m.Add(ctx, ann, "", "go test * in /w"); err != nil {
		t.Fatal(err)
	}
	const shape = "go test * in /w"
	for _, job := range []string{"", "nightly", "aaaaaaaaaaaa"} {
		got, err := c.AddApproval(ctx, " "+shape+" ", job)
		if err != nil || len(got) != 1 || got[0].Shape != shape || got[0].Principal != schedule.Operator() || (got[0].Job == "") != (job == "") || got[0].At.IsZero() {
			t.Errorf("%q: %+v, %v", job, got, err)
		}
	}
	if list, err := c.Approvals(ctx); err != nil || len(list) != 3 || list[0].Principal != ann || list[1].Job != "" || list[2].Job != "aaaaaaaaaaaa" {
		t.Errorf("%+v, %v", list, err)
	}
	for what, in := range map[string][2]string{
		"say which shape": {" ", ""}, "there is no job": {"x", "daily"}, "cannot be seen": {"a\u202eb", ""}, "a secret": {"login sk-very-secret", ""}, "it may have 4096": {strings.Repeat("x", 4097), ""},
	} {
		if got, err := c.AddApproval(ctx, in[0], in[1]); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	_, err = c.RemoveApprovals(ctx, "4", "")
	wantError(t, err, 404, "there is no such approval")
	_, err = c.RemoveApprovals(ctx, "1", "nightly")
	wantError(t, err, 404, "there is no such approval")
	if got, err := c.RemoveApprovals(ctx, "2", ""); err != nil || len(got) != 1 || got[0].Principal != schedule.Operator() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := jobs.Remove(ctx, schedule.OperatorCaller(), "nightly"); err != nil {
		t.Fatal(err)
	}
	if got, err := c.RemoveApprovals(ctx, shape, "aaaaaaaaaaaa"); err != nil || len(got) != 1 || got[0].Job != "aaaaaaaaaaaa" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := c.RemoveApprovals(ctx, shape, ""); err != nil || len(got) != 1 || got[0].Principal != ann {
		t.Errorf("%+v, %v", got, err)
	}
	none := admin.Local(admin.NewHandler(admin.Options{Store: filled(t)}))
	ends(t, none.Close)
	_, err = none.Approvals(ctx)
	wantError(t, err, 503, "no approvals")
}
