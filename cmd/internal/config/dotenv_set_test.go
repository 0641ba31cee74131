package config_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/config"
)

func TestVariablesAreSetAndAllElseStays(t *testing.T) {
	for _, c := range []struct{ name, in, set, value, want string }{
		{"fresh", "", "A", "1", "A=1\n"},
		{"behind what is there", "# mine\nB=2 # two\n\nnonsense\n", "A", "1", "# mine\nB=2 # two\n\nnonsense\nA=1\n"},
		{"without a line end", "B=2", "A", "1", "B=2\nA=1\n"},
		{"in place", "A=old # c\nB=2\n", "A", "1", "A=1\nB=2\n"},
		{"the last one counts", "A=x\nA=y\nB=2\n", "A", "1", "A=x\nA=1\nB=2\n"},
		{"over several lines", "A='x\nB=no\n' # c\nB=2\n", "A", "1", "A=1\nB=2\n"},
		{"only inside a value", "B='x\nA=no\n'\n", "A", "1", "B='x\nA=no\n'\nA=1\n"},
		{"exported", "export A=old\n", "A", "1", "A=1\n"},
		{"commented out", "#A=old\n", "A", "1", "#A=old\nA=1\n"},
		{"windows", "\xef\xbb\xbfB=2\r\n", "A", "1", "\xef\xbb\xbfB=2\r\nA=1\r\n"},
		{"empty", "A=old\n", "A", "", "A=\n"},
		{"spaces and a hash", "", "A", " a # b ", "A=' a # b '\n"},
		{"nothing is expanded", "", "A", "$HOME `id`", "A='$HOME `id`'\n"},
		{"an apostrophe", "", "A", "it's $5", `A="it's \$5"` + "\n"},
		{"line ends", "", "A", "a\r\nB=2", `A="a\r\nB=2"` + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := config.SetDotenv([]byte(c.in), config.Variable{Name: c.set, Value: c.value})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, string(got)); d != "" {
				t.Error("the file differs (-want +got):\n" + d)
			}
		})
	}
	for _, v := range []config.Variable{{Name: "A B", Value: "secret"}, {Name: "A", Value: "secret\xff"}, {Name: "A", Value: "secret\x00"}} {
		if _, err := config.SetDotenv(nil, v); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", v.Name, err)
		}
	}
}

// FuzzSetDotenv checks that set variables are read back and others are unchanged.
func FuzzSetDotenv(f *testing.F) {
	for _, s := range []string{"", "A='x\ny' # c\nB=1\nA=2", "B=\"\\\"\nA", "\xef\xbb\xbfB=1\r\nA=\"x\r\n\"\r\n", "A='open\nB=2\n"} {
		f.Add([]byte(s), "a'\"\\\n#$ {}")
	}
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		got, err := config.SetDotenv(data, config.Variable{Name: "A", Value: value})
		if err != nil {
			_, _, problems := config.ParseDotenv(data)
			if utf8.ValidString(value) && !strings.ContainsRune(value, 0) && len(problems) == 0 {
				t.Fatal(err)
			}
			return
		}
		want := config.ReadDotenv(data)
		want["A"] = value
		if d := cmp.Diff(want, config.ReadDotenv(got)); d != "" {
			t.Errorf("%q: variables differ (-want +got):\n%s", data, d)
		}
	})
}
