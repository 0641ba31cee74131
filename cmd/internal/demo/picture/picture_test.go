package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// elements returns the names of the elements of an XML document, and its texts.
func elements(t *testing.T, raw []byte) (names, texts []string) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(raw)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return names, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			names = append(names, token.Name.Local)
		case xml.CharData:
			if s := strings.TrimSpace(string(token)); s != "" {
				texts = append(texts, s)
			}
		}
	}
}

// demoOutput returns an output of the demo with these lines as answers after the
// restart, and this number of lost messages.
func demoOutput(restart string, answers []string, lost string) string {
	rule := "\x1b[m\x1b[2m " + strings.Repeat("━", 90) + "\x1b[m\n"
	return "hermesd, a tour\n\n● connected to all three after 622 ms\n" +
		"\n\x1b[2m━━ \x1b[m\x1b[1mkill -9 in the middle of a turn" + rule +
		"\x1b[2m 0.16 s\x1b[m  \x1b[1;96mTelegram\x1b[m  › \x1b[1mwhat is 2 + 2? #8\x1b[m\n" +
		"\x1b[2m 0.37 s\x1b[m  \x1b[1mhermesd\x1b[m   \x1b[32m●\x1b[m started again, connected to all three after " + restart + " ms\n" +
		strings.Join(answers, "\n") + "\n" +
		"\n\x1b[2m━━ \x1b[m\x1b[1mAnother part" + rule + "  not shown\n" +
		"\n\x1b[2m━━ \x1b[m\x1b[1mResult, by the records of the simulators" + rule +
		"  lost                 " + lost + "\n" +
		"\n  Prefix reuse: 62 %\n"
}

func picture(t *testing.T, output string) string {
	t.Helper()
	lines, err := excerpt(output)
	if err != nil {
		t.Fatal(err)
	}
	svg, err := render(lines)
	if err != nil {
		t.Fatal(err)
	}
	return string(svg)
}

func TestPictureIsTheSameForTheSameDemo(t *testing.T) {
	first := picture(t, demoOutput("684", []string{" 1.13 s  Slack       six", "11.20 s  Telegram    seven", "11.21 s  Telegram    four"}, "0"))
	if second := picture(t, demoOutput("75", []string{" 0.58 s  Telegram    seven", " 0.60 s  Telegram    four", " 0.64 s  Slack       six"}, "0")); second != first {
		t.Errorf("times, and which platform is first, make a difference:\n%s\n%s", first, second)
	}
	for name, output := range map[string]string{
		"the order on one platform": demoOutput("684", []string{" 1.13 s  Slack       six", " 1.20 s  Telegram    four", " 1.21 s  Telegram    seven"}, "0"),
		"a missing answer":          demoOutput("684", []string{" 1.13 s  Slack       six", " 1.20 s  Telegram    four"}, "0"),
		"the result":                demoOutput("684", []string{" 1.13 s  Slack       six", " 1.20 s  Telegram    seven", " 1.21 s  Telegram    four"}, "1"),
	} {
		if picture(t, output) == first {
			t.Errorf("%s makes no difference", name)
		}
	}
	_, texts := elements(t, []byte(first))
	all := strings.Join(texts, "\n")
	for _, not := range []string{"0.16", "684", "Another part", "not shown", "Prefix", "a tour"} {
		if strings.Contains(all, not) {
			t.Errorf("%q is shown:\n%s", not, all)
		}
	}
	for _, want := range []string{"kill -9 in the middle of a turn", "started again, connected to all three", "lost"} {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is not shown:\n%s", want, all)
		}
	}
}

func TestExcerptFailsWithoutItsParts(t *testing.T) {
	whole := demoOutput("1", []string{"Slack six"}, "0")
	for _, missing := range []string{"kill -9", "started again", "Result"} {
		if _, err := excerpt(strings.ReplaceAll(whole, missing, "…")); err == nil {
			t.Errorf("no error without %q", missing)
		}
	}
	if _, err := excerpt(demoOutput("1", []string{"Telegram    a long", "            answer", "Slack       six"}, "0")); err == nil {
		t.Error("no error for an answer of two lines, which cannot be sorted")
	}
}

func TestRenderKeepsTextAndColumns(t *testing.T) {
	svg, err := render([]string{"  <b> & \"x\"   \x1b[1;31m✗ 漢字\x1b[m end  \x1b[2mlast\x1b[m", ""})
	if err != nil {
		t.Fatal(err)
	}
	if _, texts := elements(t, svg); !slices.Equal(texts[1:], []string{`<b> & "x"`, "✗ 漢字", "end", "last"}) {
		t.Errorf("texts %q", texts)
	}
	for _, want := range []string{ // 18 pixels of margin, 9 for each column
		`<text x="36" y="33" textLength="81" lengthAdjust="spacingAndGlyphs" fill="#e6edf3">&lt;b&gt; &amp; `,
		`<text x="144" y="33" textLength="54" lengthAdjust="spacingAndGlyphs" fill="#ff7b72" font-weight="bold">✗`,
		`<text x="207" y="33" textLength="27" lengthAdjust="spacingAndGlyphs" fill="#e6edf3">end`,
		`<text x="252" y="33" textLength="36" lengthAdjust="spacingAndGlyphs" fill="#8b949e">last`,
	} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
	if again, _ := render([]string{"  <b> & \"x\"   \x1b[1;31m✗ 漢字\x1b[m end  \x1b[2mlast\x1b[m", ""}); !bytes.Equal(svg, again) {
		t.Error("the same lines give other bytes")
	}
}

func TestRenderRefusesWhatDoesNotFit(t *testing.T) {
	full := strings.Repeat("漢", maxColumns/2)
	if _, err := render(slices.Repeat([]string{full}, maxLines)); err != nil {
		t.Error(err)
	}
	for name, lines := range map[string][]string{
		"too wide":              {full + "x"},
		"too many lines":        make([]string, maxLines+1),
		"an unknown style":      {"\x1b[7minverse\x1b[m"},
		"another escape":        {"\x1b[2Jcleared"},
		"a control character":   {"a\tb"},
		"an unfinished control": {"a\x1b[3"},
	} {
		if svg, err := render(lines); err == nil {
			t.Errorf("%s: no error:\n%s", name, svg)
		}
	}
}

func TestReadmeShowsThePicture(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "](docs/demo.svg)") || !strings.Contains(string(readme), "\n"+command+"\n") {
		t.Errorf("README.md does not show docs/demo.svg and the command %q", command)
	}
	svg, err := os.ReadFile(filepath.Join(root, "docs", "demo.svg"))
	if err != nil {
		t.Fatal(err)
	}
	names, texts := elements(t, svg)
	for _, name := range names {
		if !slices.Contains([]string{"svg", "title", "rect", "text"}, name) {
			t.Errorf("docs/demo.svg has an element %s", name)
		}
	}
	for _, heading := range parts {
		if !slices.Contains(texts, heading) {
			t.Errorf("docs/demo.svg does not show %q (make picture)", heading)
		}
	}
}
