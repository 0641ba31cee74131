package profile_test

import (
	"errors"
	"path/filepath"
	"testing"

	"hermesd/cmd/internal/config/profile"
)

func TestAProfileIsAHomeBelowTheHome(t *testing.T) {
	root := t.TempDir()
	work := filepath.Join(root, "profiles", "work")
	for _, tt := range []struct{ home, profile, want, of string }{
		{root, "", root, ""},
		{root, "default", root, ""},
		{root, "main", root, ""},
		{root, "work", work, "work"},
		{work, "", root, ""},
		{work, "main", root, ""},
		{work, "work", work, "work"},
		{work, "a-2_b", filepath.Join(root, "profiles", "a-2_b"), "a-2_b"},
		{filepath.Join(root, "profiles", "Not One"), "x", filepath.Join(root, "profiles", "Not One", "profiles", "x"), "x"},
	} {
		got, err := profile.Home(tt.home, tt.profile)
		if err != nil || got != tt.want || profile.FromHome(got) != tt.of {
			t.Errorf("%s %q: %s of %q, %v; want %s of %q", tt.home, tt.profile, got, profile.FromHome(got), err, tt.want, tt.of)
		}
	}
	for _, bad := range []string{".", "..", "../x", "a/b", "A", "-a", "a b", "ä", "a\x00", string(make([]byte, 65))} {
		if got, err := profile.Home(root, bad); !errors.Is(err, profile.ErrName) {
			t.Errorf("%q: %s, %v", bad, got, err)
		}
	}
}
