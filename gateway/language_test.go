package gateway_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"

	"hermesd/agent"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
)

// inGerman sets the language of the daemon to German.
func inGerman(t *testing.T) func(*gatewaytest.Options) {
	return func(o *gatewaytest.Options) {
		var err error
		if o.Printer, err = i18n.For("de"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLanguageOfCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.configure = func(o *gatewaytest.Options) {
			o.Access = ownerChecker(t)
			var err error
			if o.Printer, err = i18n.For("de"); err != nil {
				t.Fatal(err)
			}
		}
		w.start()
		defer w.stop()
		for _, tt := range []struct{ say, want string }{
			{"/help", "die Befehle aufzählen"},
			{"/hlep", "Meinst du `/help`?"},
			{"/stop", "Gerade läuft nichts."},
			{"/new", "Ein neues Gespräch beginnt."},
		} {
			w.sendText("7", tt.say)
			w.advance(time.Second)
			seen := w.adapter.visible("7")
			if got := seen[len(seen)-1]; !strings.Contains(got, strings.ReplaceAll(tt.want, "`", "")) && !strings.Contains(got, tt.want) {
				t.Errorf("%s: %q, want %q", tt.say, got, tt.want)
			}
		}
		for _, c := range w.gw.Commands().All() {
			if c.Name == "help" && c.Help != "die Befehle aufzählen" {
				t.Errorf("the menu says %q", c.Help)
			}
		}
	})
}

func TestLanguageOfRepeatNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Hallo."))
		w.configure = inGerman(t)
		w.adapter.addFaults(fault{op: "send", after: errors.New("no answer")})
		w.start()
		defer w.stop()
		w.sendText("7", "hi")
		w.advance(time.Minute)
		if diff := cmp.Diff([]string{"Hallo.", "(evtl. doppelt)\nHallo."}, w.adapter.visible("7")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestLanguageOfMissingFileNotice(t *testing.T) {
	gone := i18n.Errorf("the file is no longer at Telegram")
	for _, tt := range []struct {
		problem string // of the stored file
		wrong   error  // of the download
		said    string
		model   string
	}{
		{wrong: i18n.Errorf("I could not get the file %s: %v.", "a.pdf", gone), said: "Ich konnte die Datei a.pdf nicht holen: die Datei ist nicht mehr bei Telegram.", model: "I could not get the file a.pdf: the file is no longer at Telegram."},
		{problem: "the file was deleted from Slack", said: "die Datei wurde bei Slack gelöscht", model: "the file was deleted from Slack"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, llmtest.Say("Schade."))
			w.configure = func(o *gatewaytest.Options) {
				inGerman(t)(o)
				o.Fetch = func(_ context.Context, _ chat.Account, f chat.File) (chat.File, error) {
					if tt.wrong != nil {
						f.FetchError = tt.wrong.Error()
					}
					return f, tt.wrong
				}
			}
			w.start()
			defer w.stop()
			m := w.newMessage("7", "lies das")
			m.Files = []chat.File{{Kind: chat.Document, Name: "a.pdf", FetchError: tt.problem}}
			w.accept(m)
			w.advance(time.Minute)
			if diff := cmp.Diff([]string{tt.said, "Schade."}, w.adapter.visible("7")); diff != "" {
				t.Error(diff)
			}
			if got := w.transcript()[0].Blocks[0].Text; !strings.Contains(got, tt.model) {
				t.Errorf("the model gets %q", got)
			}
		})
	}
}

func TestLanguageOfResetNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Eins."), llmtest.Say("Zwei."))
		w.configure = func(o *gatewaytest.Options) {
			inGerman(t)(o)
			o.Reset = func(chat.Address) session.ResetPolicy { return session.ResetPolicy{Idle: time.Hour} }
		}
		w.start()
		defer w.stop()
		w.sendText("7", "eins")
		w.advance(26 * time.Hour)
		w.sendText("7", "zwei")
		w.advance(time.Minute)
		if got := w.adapter.visible("7"); len(got) != 3 || !strings.HasPrefix(got[1], "Ein neues Gespräch beginnt, weil seit 26 Stunden nichts gesagt wurde. Das alte bleibt als ") {
			t.Errorf("got %q", got)
		}
	})
}

func TestLanguageOfCompactionNotice(t *testing.T) {
	const failed = "The summary model failed (%s), so the main model wrote the summary."
	for language, want := range map[string]string{
		"de": "Ich habe den älteren Teil dieses Gesprächs zusammengefasst: aus etwa 86.008 Tokens wurden 100. Nichts ist gelöscht. Das Modell für Zusammenfassungen hat versagt (no credit), darum hat das Hauptmodell sie geschrieben.",
		"en": "I have summarised the older part of this conversation: about 86008 tokens became 100. Nothing is deleted. The summary model failed (no credit), so the main model wrote the summary.",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, answerWithUsage("One.", 100), answerWithUsage("Two.", 84_900), answerWithUsage("Three.", 86_000), answerWithUsage("Four.", 300), answerWithUsage("Five.", 90_000), answerWithUsage("Six.", 300))
			f := &foldingEngine{limit: 1 << 30, describe: func(p *agent.Compaction) { p.Explain(failed, "no credit") }}
			w.useEngine(f, 100_000)
			compressing := w.configure
			w.configure = func(o *gatewaytest.Options) {
				compressing(o)
				var err error
				if o.Printer, err = i18n.For(language); err != nil {
					t.Fatal(err)
				}
			}
			w.start()
			defer w.stop()
			w.talk("a", "b", "c", "d")
			if seen := w.adapter.visible("7"); !slices.Contains(seen, want) {
				t.Errorf("no notice %q:\n%s", want, strings.Join(seen, "\n"))
			}
			f.describe = func(p *agent.Compaction) { p.Explanation = "In its own words." }
			if got := w.talk("e", "f", "/compress"); !strings.HasSuffix(got, " In its own words.") {
				t.Errorf("compaction by command: %q", got)
			}
		})
	}
}

// TestLanguageOfAllConversationsInGerman runs all conversations of testdata/turns in
// German.
func TestLanguageOfAllConversationsInGerman(t *testing.T) {
	sentences := englishSentences(t)
	files, err := filepath.Glob("testdata/turns/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	shown := 0
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		part := map[string]*txtar.File{}
		for i := range ar.Files {
			part[ar.Files[i].Name] = &ar.Files[i]
		}
		var got string
		synctest.Test(t, func(t *testing.T) { got = playScript(t, part, "de") })
		for line := range strings.Lines(got) {
			_, text, ok := strings.Cut(line, " < ")
			if !ok { // outcomes stay English
				continue
			}
			shown++
			for key, form := range sentences {
				if form.MatchString(text) {
					t.Errorf("%s: %q is English: %s", file, key, line)
				}
			}
		}
	}
	if shown < 100 {
		t.Errorf("only %d messages are shown", shown)
	}
}

var formatVerbs = regexp.MustCompile(`%(?:\[\d+\])?[.0-9]*[a-z]`)

// englishSentences returns patterns that find the English sentences of three words and
// more, by sentence.
func englishSentences(t *testing.T) map[string]*regexp.Regexp {
	t.Helper()
	raw, err := os.ReadFile("i18n/de.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := yaml.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	forms := make(map[string]*regexp.Regexp)
	for key := range all {
		plain := strings.NewReplacer("`", "", "**", "", "- ", "", "%%", "%", "\n", " | ").Replace(strings.TrimSpace(key))
		if len(strings.Fields(formatVerbs.ReplaceAllString(plain, ""))) >= 3 {
			forms[key] = regexp.MustCompile(formatVerbs.ReplaceAllString(regexp.QuoteMeta(plain), ".*"))
		}
	}
	return forms
}
