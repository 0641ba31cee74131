package timezone_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hermesd/cmd/internal/config/timezone"
)

func TestTheZoneOfTheMachineHasItsName(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ tz, link, file, want string }{
		"by its link":               {link: "/usr/share/zoneinfo/Europe/Berlin", want: "Europe/Berlin"},
		"by another link":           {link: "../usr/share/zoneinfo/posix/Europe/Berlin", want: "Europe/Berlin"},
		"by its file":               {file: "Europe/Berlin\n", want: "Europe/Berlin"},
		"by the environment":        {tz: ":Europe/Berlin", link: "/usr/share/zoneinfo/Asia/Tokyo", want: "Europe/Berlin"},
		"not by one of elsewhere":   {link: "/usr/share/zoneinfo/Asia/Tokyo", file: "Europe/Berlin", want: "Europe/Berlin"},
		"nor by one of that winter": {file: "Africa/Lagos", want: "CET"},
		"nor by what is none":       {tz: "Local", link: "/somewhere/else", file: "../../etc/passwd", want: "CET"},
		"nor by nothing":            {want: "CET"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TZ", c.tz)
			root := t.TempDir()
			if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			if c.link != "" {
				if err := os.Symlink(c.link, filepath.Join(root, "etc", "localtime")); err != nil {
					t.Fatal(err)
				}
			}
			if c.file != "" {
				if err := os.WriteFile(filepath.Join(root, "etc", "timezone"), []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			local := *berlin // one whose name says nothing
			got := timezone.Named(&local, timezone.Names(root))
			if c.want == "CET" && got != &local || c.want != "CET" && got.String() != c.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestNameOfZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	winter, summer := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC), time.Date(2026, 7, 15, 12, 0, 0, 0, time.UTC)
	unnamed := time.FixedZone("Local", -(3*60+30)*60)
	for _, c := range []struct {
		zone *time.Location
		at   time.Time
		want string
	}{
		{berlin, winter, "Europe/Berlin"}, {berlin, summer, "Europe/Berlin"}, {time.UTC, winter, "UTC"},
		{unnamed, winter, "UTC-03:30"}, {time.FixedZone("Local", 7200), summer, "UTC+02:00"},
	} {
		if got := timezone.NameOf(c.zone, c.at); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := timezone.Name(winter); got == "Local" || got == "" {
		t.Errorf("the host's zone is %q", got)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
