package config_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hermesd/cmd/internal/config"
)

func TestDotenv(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "A=1\nB=two words \n", "A=1|B=two words"},
		{"empty values", "A=\nB=''\nC=\"\"\n", "A=|B=|C="},
		{"nothing", "\n \t\n# comment\n  # comment\n", ""},
		{"export", "export A=1\n export\tB=2\nexported=3\nexport=4\n", "A=1|B=2|exported=3|export=4"},
		{"spaces", "  A = 1\nB= '2' \n", "A=1|B=2"},
		{"comments", "A=1 # c\nB=a#b\nC=#c\nD='#' # c\nE=\"a\" #c\nF=x\t#c\n", "A=1|B=a#b|C=|D=#|E=a|F=x"},
		{"nothing is expanded", "A=$HOME\nB=\"${HOME} $$\"\nC='$(id)'\nD=`id`\n", "A=$HOME|B=${HOME} $$|C=$(id)|D=`id`"},
		{"single quotes take all", `A='a\n"b" \'` + "\n", `A=a\n"b" \`},
		{"double quotes escape", `A="a\nb\t\"c\" \\ \$ \x \ü"` + "\n", "A=a\nb\t\"c\" \\ $ \\x \\ü"},
		{"several lines", "A='one\ntwo'\nB=\"x\n# no comment\ny\" # comment\nC=3", "A=one\ntwo|B=x\n# no comment\ny|C=3"},
		{"quotes inside", "A=it's\nB=a\"b\"\n", "A=it's|B=a\"b\""},
		{"windows", "\xef\xbb\xbfA=1\r\nB='x'\r\n", "A=1|B=x"},
		{"equal signs", "A=b=c==\n", "A=b=c=="},
		{"no line end", "A=1", "A=1"},
		{"utf-8", "A=schlüssel", "A=schlüssel"},

		{"no assignment", "A=1\n  just text\nB=2\n", "A=1|B=2 !.env:2:3: this line is not NAME=value and is left out"},
		{"bad name", "1A=1\nA-B=2\n=3\nB=2\n", "B=2 !.env:1:1: what stands ahead of = is not the name of a variable; the line is left out !.env:2:1: what stands ahead of = is not the name of a variable; the line is left out !.env:3:1: what stands ahead of = is not the name of a variable; the line is left out"},
		{"open quote", "A='x\nB=2\n", "B=2 !.env:1:3: the quote is not closed; the line is left out"},
		{"text behind a quote", "A='x'y\nB=2\n", "A=x|B=2 !.env:1:1: what stands behind the closing quote is left out"},
		{"not utf-8", "A=\xff\nB=2\n", "B=2 !.env:1:1: this line is not UTF-8 and is left out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			names, values, problems := config.ParseDotenv([]byte(c.in))
			var got []string
			for i := range names {
				got = append(got, names[i]+"="+values[i])
			}
			s := strings.Join(got, "|")
			for _, p := range problems {
				s += " !" + p.String()
			}
			if d := cmp.Diff(c.want, s); d != "" {
				t.Error("variables differ (-want +got):\n" + d)
			}
		})
	}
}

func TestDotenvInUse(t *testing.T) {
	c, r := setup{
		yaml:   "logging: {file: '${LANGUAGE}'}\n",
		dotenv: "TELEGRAM_BOT_TOKEN=1:first\nTELEGRAM_BOT_TOKEN=1:second\nLANGUAGE=de\nnonsense sk-ant-in-nonsense\n",
	}.good(t)
	if c.Platforms.Telegram.Adapter.Token != "1:second" || c.Logging.File != "de" {
		t.Errorf("token %q, language %q", c.Platforms.Telegram.Adapter.Token.Reveal(), c.Logging.File)
	}
	want := ".env:2:1: TELEGRAM_BOT_TOKEN: set twice; line 1 is not used\n.env:4:1: this line is not NAME=value and is left out\n"
	if got := texts(r.Warnings); got != want {
		t.Errorf("warnings:\n%swant:\n%s", got, want)
	}
}

func FuzzDotenv(f *testing.F) {
	for _, s := range []string{"A=1\nexport B='x\ny' # c\n", "A=\"\\", "A='\n\n'x", "\xef\xbb\xbf=\r\n", "A=\"a\\nb\"\r\nB"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		names, values, problems := config.ParseDotenv(data)
		lines := 1 + strings.Count(string(data), "\n")
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines || p.Column < 1 {
				t.Fatalf("a problem at %d:%d of %d lines", p.Line, p.Column, lines)
			}
		}
		for i, n := range names {
			if n == "" || strings.ContainsAny(n, " =\n") || utf8.Valid(data) && !utf8.ValidString(values[i]) {
				t.Fatalf("%q=%q", n, values[i])
			}
		}
	})
}

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
