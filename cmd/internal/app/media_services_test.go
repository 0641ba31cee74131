package app_test

import (
	"bytes"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hermesd/gateway/session"
	"hermesd/internal/sim/llm"
	"hermesd/internal/sim/telegram"
)

// countRequests returns the number of requests to the second model in an API format.
func (w *harness) countRequests(dialect string) int {
	n := 0
	for _, e := range w.secondModel.Requests() {
		if e.Dialect == dialect {
			n++
		}
	}
	return n
}

func TestVoiceMessageIsTranscribed(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: "stt:\n  base_url: $SPARE/v1\n  api_key: sk-simulated-0000000000\n"})
	w.start()
	w.waitConnected()
	w.chat.Post(telegram.Post{From: w.ann, Media: &telegram.Media{Kind: telegram.Voice, MIME: "audio/ogg", Seconds: 3, Data: llm.Sound("ogg", "buy milk")}})
	w.waitText("buy milk")
	if n := w.countRequests("transcription"); n != 1 {
		t.Errorf("%d transcriptions", n)
	}
}

func TestVoiceAnswersOnRequest(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: "tts:\n  base_url: $SPARE/v1\n  api_key: sk-simulated-0000000000\n"})
	w.start()
	w.waitConnected()
	w.askEcho("one")
	w.say("/voice on")
	w.waitFor("voice is on", func() bool { return len(w.chat.FromBots()) == 2 })
	w.say("two")
	w.waitFor("a recording comes", func() bool {
		return slices.ContainsFunc(w.chat.FromBots(), func(m telegram.Message) bool {
			return m.Media != nil && m.Media.Kind == telegram.Voice && bytes.Contains(m.Media.Data, []byte("echo: two"))
		})
	})
	if n := w.countRequests("speech"); n != 1 {
		t.Errorf("%d speeches", n)
	}
	left, err := filepath.Glob(filepath.Join(w.home, "cache", "media", "speech-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left are %q, %v", left, err)
	}
}

func TestImageIsDescribedForModelWithoutVision(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	if err := jpeg.Encode(&picture, image.NewGray(image.Rect(0, 0, 8, 8)), nil); err != nil {
		t.Fatal(err)
	}
	w := newHarness(t, fault{config: "auxiliary:\n  vision:\n    provider: anthropic\n    model: claude-haiku-4-5\n    base_url: $SPARE\n    api_key: sk-simulated-0000000000\n"})
	w.writeFile("config.yaml", strings.Replace(w.readFile("config.yaml"), "provider: anthropic\n  default: claude-sonnet-4-5\n  base_url: "+w.model.URL, "provider: custom\n  default: blind\n  base_url: "+w.model.URL+"/v1", 1))
	w.start()
	w.waitConnected()
	w.chat.Post(telegram.Post{From: w.ann, Text: "look", Media: &telegram.Media{Kind: telegram.Photo, Data: picture.Bytes()}})
	w.waitText("as another model describes it")
	if n := len(w.secondModel.Requests()); n != 1 {
		t.Errorf("the one that sees was asked %d times", n)
	}
}

func TestTitleIsGeneratedUnlessSetByUser(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{config: "auxiliary:\n  title_generation:\n    provider: anthropic\n    model: claude-haiku-4-5\n    base_url: $SPARE\n    api_key: sk-simulated-0000000000\n"})
	w.start()
	w.waitConnected()
	titled := func(want string) func() bool {
		return func() bool {
			all, err := w.app.Store().Sessions(w.ctx, session.Query{Max: 10})
			return err == nil && len(all) > 0 && slices.ContainsFunc(all, func(r session.Record) bool { return strings.Contains(r.Title, want) })
		}
	}
	w.askEcho("hello")
	w.waitFor("there is a title", titled("echo"))
	w.askEcho("again")
	if n := len(w.secondModel.Requests()); n != 1 {
		t.Errorf("%d titles were asked for", n)
	}
	w.say("/title Groceries")
	w.waitFor("it is the person's", titled("Groceries"))
}

// Files that users send, and their text for the model, are deleted with the
// conversation.
func TestDeletedConversationDeletesItsFiles(t *testing.T) {
	t.Parallel()
	w := newHarness(t, fault{})
	w.start()
	w.waitConnected()
	w.chat.Post(telegram.Post{From: w.ann, Text: "look", Media: &telegram.Media{Kind: telegram.Document, Name: "notes.txt", MIME: "text/plain", Data: []byte("a canary")}})
	w.waitText("a canary")
	kept := func() (n int) {
		w.must(filepath.WalkDir(filepath.Join(w.home, "cache", "media"), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte("a canary")) {
					n++
				}
			}
			return nil
		}))
		return n
	}
	if kept() != 1 {
		t.Fatalf("%d files hold it", kept())
	}
	w.say("/forget")
	w.waitText("Delete this conversation for good?")
	w.say("/forget now")
	w.waitText("The conversation is deleted")
	if kept() != 0 {
		t.Error("the file is still there")
	}
}
