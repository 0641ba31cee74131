package userns_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermesd/cmd/internal/userns"
)

func TestRestrictionsNameCauseAndFix(t *testing.T) {
	for _, c := range []struct {
		file, value, cause, fix string // cause "": there is no restriction
	}{
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor", "hermesd service install"},
		{"kernel/apparmor_restrict_unprivileged_userns", "0", "", ""},
		{"user/max_user_namespaces", "0", "user.max_user_namespaces = 0", "sysctl -w user.max_user_namespaces"},
		{"user/max_user_namespaces", "96365", "", ""},
		{"kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone = 0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"kernel/unprivileged_userns_clone", "1", "", ""},
	} {
		proc := t.TempDir()
		path := filepath.Join(proc, c.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		found := userns.Restrictions(proc)
		switch {
		case c.cause == "" && len(found) > 0:
			t.Errorf("%s = %s: %+v", c.file, c.value, found)
		case c.cause != "" && (len(found) != 1 || !strings.Contains(found[0].Cause, c.cause) || !strings.Contains(found[0].Fix, c.fix)):
			t.Errorf("%s = %s: %+v", c.file, c.value, found)
		}
	}
	if found := userns.Restrictions(t.TempDir()); len(found) > 0 {
		t.Errorf("a kernel without these settings: %+v", found)
	}
}
