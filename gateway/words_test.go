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
	"hermesd/gateway"
	"hermesd/gateway/chat"
	"hermesd/gateway/i18n"
	"hermesd/gateway/session"
)

// german has the daemon speak German.
func german(t *testing.T) func(*gateway.Options) {
	return func(o *gateway.Options) {
		var err error
		if o.Printer, err = i18n.For("de"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommandsSpeakTheLanguageOfThePeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.set = func(o *gateway.Options) {
			o.Access = owned(t)
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
			w.say("7", tt.say)
			w.settle(time.Second)
			seen := w.room.visible("7")
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

func TestARepeatSaysSoInTheLanguageOfThePeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Hallo."))
		w.set = german(t)
		w.room.fail(fault{op: "send", after: errors.New("no answer")})
		w.start()
		defer w.stop()
		w.say("7", "hi")
		w.settle(time.Minute)
		if diff := cmp.Diff([]string{"Hallo.", "(evtl. doppelt)\nHallo."}, w.room.visible("7")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAFileThatCannotBeHadIsSaidInTheLanguageOfThePeopleAndInEnglishToTheModel(t *testing.T) {
	gone := i18n.Errorf("the file is no longer at Telegram")
	for _, tt := range []struct {
		problem string // of the file as it is stored
		wrong   error  // of the download
		said    string
		model   string
	}{
		{wrong: i18n.Errorf("I could not get the file %s: %v.", "a.pdf", gone), said: "Ich konnte die Datei a.pdf nicht holen: die Datei ist nicht mehr bei Telegram.", model: "I could not get the file a.pdf: the file is no longer at Telegram."},
		{problem: "the file was deleted from Slack", said: "die Datei wurde bei Slack gelöscht", model: "the file was deleted from Slack"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, llmtest.Say("Schade."))
			w.set = func(o *gateway.Options) {
				german(t)(o)
				o.Fetch = func(_ context.Context, _ chat.Account, f chat.File) (chat.File, error) {
					if tt.wrong != nil {
						f.FetchError = tt.wrong.Error()
					}
					return f, tt.wrong
				}
			}
			w.start()
			defer w.stop()
			m := w.message("7", "lies das")
			m.Files = []chat.File{{Kind: chat.Document, Name: "a.pdf", FetchError: tt.problem}}
			w.offer(m)
			w.settle(time.Minute)
			if diff := cmp.Diff([]string{tt.said, "Schade."}, w.room.visible("7")); diff != "" {
				t.Error(diff)
			}
			if got := w.transcript()[0].Blocks[0].Text; !strings.Contains(got, tt.model) {
				t.Errorf("the model is told %q", got)
			}
		})
	}
}

func TestAConversationThatStartsOverSaysWhyInTheLanguageOfThePeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("Eins."), llmtest.Say("Zwei."))
		w.set = func(o *gateway.Options) {
			german(t)(o)
			o.Reset = func(chat.Address) session.ResetPolicy { return session.ResetPolicy{Idle: time.Hour} }
		}
		w.start()
		defer w.stop()
		w.say("7", "eins")
		w.settle(26 * time.Hour)
		w.say("7", "zwei")
		w.settle(time.Minute)
		if got := w.room.visible("7"); len(got) != 3 || !strings.HasPrefix(got[1], "Ein neues Gespräch beginnt, weil seit 26 Stunden nichts gesagt wurde. Das alte bleibt als ") {
			t.Errorf("got %q", got)
		}
	})
}

func TestWhatAnEngineSaysOfItsPassIsSaidInTheLanguageOfThePeople(t *testing.T) {
	const failed = "The summary model failed (%s), so the main model wrote the summary."
	for language, want := range map[string]string{
		"de": "Ich habe den älteren Teil dieses Gesprächs zusammengefasst: aus etwa 86.008 Tokens wurden 100. Nichts ist gelöscht. Das Modell für Zusammenfassungen hat versagt (no credit), darum hat das Hauptmodell sie geschrieben.",
		"en": "I have summarised the older part of this conversation: about 86008 tokens became 100. Nothing is deleted. The summary model failed (no credit), so the main model wrote the summary.",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t, sized("One.", 100), sized("Two.", 84_900), sized("Three.", 86_000), sized("Four.", 300), sized("Five.", 90_000), sized("Six.", 300))
			f := &folder{limit: 1 << 30, says: func(p *agent.Compaction) { p.Explain(failed, "no credit") }}
			w.compressing(f, 100_000)
			compressing := w.set
			w.set = func(o *gateway.Options) {
				compressing(o)
				var err error
				if o.Printer, err = i18n.For(language); err != nil {
					t.Fatal(err)
				}
			}
			w.start()
			defer w.stop()
			w.talk("a", "b", "c", "d")
			if seen := w.room.visible("7"); !slices.Contains(seen, want) {
				t.Errorf("nobody was told %q:\n%s", want, strings.Join(seen, "\n"))
			}
			f.says = func(p *agent.Compaction) { p.Explanation = "In its own words." }
			if got := w.talk("e", "f", "/compress"); !strings.HasSuffix(got, " In its own words.") {
				t.Errorf("of a pass that a person asks for: %q", got)
			}
		})
	}
}

// TestNoConversationInGermanHoldsAnEnglishSentence plays all conversations of
// testdata/turns in German.
func TestNoConversationInGermanHoldsAnEnglishSentence(t *testing.T) {
	sentences := english(t)
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
			if !ok { // how a message ended: that stays English
				continue
			}
			shown++
			for key, form := range sentences {
				if form.MatchString(text) {
					t.Errorf("%s: %q is said in English: %s", file, key, line)
				}
			}
		}
	}
	if shown < 100 {
		t.Errorf("only %d messages are shown", shown)
	}
}

var verbs = regexp.MustCompile(`%(?:\[\d+\])?[.0-9]*[a-z]`)

// english returns what finds the sentences of three words and more in what is
// shown, by the sentence.
func english(t *testing.T) map[string]*regexp.Regexp {
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
		if len(strings.Fields(verbs.ReplaceAllString(plain, ""))) >= 3 {
			forms[key] = regexp.MustCompile(verbs.ReplaceAllString(regexp.QuoteMeta(plain), ".*"))
		}
	}
	return forms
}
