package timezone_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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
