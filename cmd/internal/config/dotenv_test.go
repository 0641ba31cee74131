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
	if c.Platforms.Telegram.Token != "1:second" || c.Logging.File != "de" {
		t.Errorf("token %q, language %q", c.Platforms.Telegram.Token.Reveal(), c.Logging.File)
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
