package vision_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"hermesd/agent/llm"
	"hermesd/agent/llm/anthropic"
	"hermesd/agent/llm/llmtest"
	"hermesd/agent/llm/openai"
	"hermesd/agent/vision"
	sim "hermesd/internal/sim/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// picture returns an image block with a new file and a wrong declared type.
func picture(t *testing.T) llm.Block {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	return block(t, b.Bytes())
}

func block(t *testing.T, data []byte) llm.Block {
	t.Helper()
	p := filepath.Join(t.TempDir(), "picture")
	if err := os.WriteFile(p, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return llm.Block{Type: llm.Image, MIME: "image/jpeg", Path: p}
}

// Both services accept the request unchanged, and get the image and the task.
func TestDescribe(t *testing.T) {
	s := sim.New(sim.Options{Reply: func(r sim.Request) sim.Reply {
		last := r.Last()
		if len(last.Blocks) != 2 || last.Blocks[0].Type != "image" || !strings.Contains(r.System, "for an assistant that cannot see") || !bytes.Contains(r.Body, []byte("image/png")) {
			return sim.Reply{Text: "no picture came"}
		}
		return sim.Reply{Text: " A grey square.\x1b[2J "}
	}})
	defer s.Close()
	for _, p := range []llm.Provider{
		openai.New(openai.Options{BaseURL: s.URL + "/v1", Key: "k", HTTP: s.Client()}),
		anthropic.New(anthropic.Options{BaseURL: s.URL, Key: "k", HTTP: s.Client()}),
	} {
		got, used, err := vision.New(p, vision.Options{Model: "sees"}).Describe(t.Context(), picture(t))
		if err != nil || got != "A grey square.[2J" || used.Prompt() == 0 || used.Output == 0 {
			t.Errorf("%s: got %q, %+v, %v", p.Name(), got, used, err)
		}
	}
}

func TestDescribeRejectsInvalidFiles(t *testing.T) {
	s := sim.New(sim.Options{})
	defer s.Close()
	p := openai.New(openai.Options{BaseURL: s.URL + "/v1", Key: "k", HTTP: s.Client()})
	for want, b := range map[string]llm.Block{
		"there is no picture":                  {Type: llm.Text, Text: "x"},
		"the picture cannot be read":           {Type: llm.Image, Path: filepath.Join(t.TempDir(), "none")},
		"the picture is empty, or no file":     block(t, nil),
		"is empty, or no file":                 {Type: llm.Image, Path: t.TempDir()},
		"no picture that can be looked at":     block(t, []byte("<svg>")),
		"JPEG, PNG, GIF and WebP can":          block(t, []byte("\x00\x00\x00\x1cftypheic")),
		"has 0.1 MB and at most 0.0 MB can be": block(t, append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 100_000)...)),
	} {
		if _, _, err := vision.New(p, vision.Options{MaxBytes: 50_000}).Describe(t.Context(), b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if s.Count() != 0 {
		t.Errorf("%d requests came", s.Count())
	}
}

func TestDescribeInvalidAnswers(t *testing.T) {
	for want, a := range map[string]llmtest.Answer{
		"declined to describe": {Stop: llm.Refusal},
		"said nothing":         {Text: " \n"},
		"broke off":            {Text: "A gr", Cut: true},
		"rate_limit":           llmtest.Fail(llm.RateLimit),
	} {
		if got, _, err := vision.New(llmtest.NewScripted(a), vision.Options{}).Describe(t.Context(), picture(t)); err == nil || !strings.Contains(err.Error(), want) || got != "" {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

func TestDescribeTruncates(t *testing.T) {
	for text, a := range map[string]llmtest.Answer{
		"山山山山\n[The description was cut here.]": llmtest.Say("山山山山山山"),
		"abc\n[The description was cut here.]":  {Text: "abc", Stop: llm.Length},
		"abcd":                                  llmtest.Say("abcd"),
	} {
		if got, _, err := vision.New(llmtest.NewScripted(a), vision.Options{MaxChars: 4}).Describe(t.Context(), picture(t)); err != nil || got != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
}

func TestDescribeTimesOut(t *testing.T) {
	b := picture(t)
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(sim.Options{})
		defer s.Close()
		s.Inject(sim.Fault{Kind: sim.NoAnswer, Times: -1})
		d := vision.New(openai.New(openai.Options{BaseURL: s.URL + "/v1", Key: "k", HTTP: s.Client()}), vision.Options{})
		began := time.Now()
		_, _, err := d.Describe(t.Context(), b)
		if err == nil || err.Error() != "the vision model took longer than 1m0s" || time.Since(began) != time.Minute {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		stop := errors.New("the person said stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		if _, _, err := d.Describe(ctx, b); !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
	})
}
