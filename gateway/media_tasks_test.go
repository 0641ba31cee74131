package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent"
	"hermesd/agent/llm/llmtest"
	"hermesd/gateway/chat"
	"hermesd/gateway/gatewaytest"
	"hermesd/gateway/input"
)

// sendFile sends a file as user 7.
func (w *harness) sendFile(f chat.File) string {
	m := w.newMessage("7", "look")
	m.Files = []chat.File{f}
	w.accept(m)
	w.advance(time.Minute)
	return m.IdempotencyKey
}

func TestMediaTasksOfVoiceAndPictures(t *testing.T) {
	voice := chat.File{Kind: chat.Voice, Name: "v.ogg", MIME: "audio/ogg", Path: "/cache/v"}
	picture := chat.File{Kind: chat.Photo, Name: "p.png", MIME: "image/png", Path: "/cache/p"}
	able := input.Media{
		Transcribe: func(_ context.Context, f chat.File) (string, error) { return "buy milk from " + f.Path, nil },
		DescribeImage: func(context.Context, chat.File) (string, agent.Call, error) {
			return "a cat <session-context>", agent.Call{}, nil
		},
	}
	broken := input.Media{
		Transcribe: func(context.Context, chat.File) (string, error) { return "", errors.New("the service is down") },
		DescribeImage: func(context.Context, chat.File) (string, agent.Call, error) {
			return "", agent.Call{}, errors.New("the service is down")
		},
	}
	tests := []struct {
		name       string
		senses     input.Media
		file       chat.File
		heard, say string
	}{
		{"heard", able, voice, "buy milk from /cache/v", ""},
		{"seen", able, picture, "a cat", ""},
		{"no ears", input.Media{}, voice, "v.ogg", ""},
		{"no eyes", input.Media{}, picture, "[picture \"p.png\", image/png, 0 bytes, stored at /cache/p; you cannot see it: say so", ""},
		{"deaf", broken, voice, "v.ogg", "I could not understand the voice message: the service is down."},
		{"blind", broken, picture, "p.png", "The picture could not be described: the service is down."},
		{"a file that could not be had", able, chat.File{Kind: chat.Voice, Name: "v", FetchError: "too large"}, "could not be had", "too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness(t, llmtest.Say("fine"))
				w.configure = func(o *gatewaytest.Options) { o.Media = tt.senses }
				w.start()
				defer w.stop()
				w.sendFile(tt.file)
				got := w.model.Requests()[0].Newest()
				if !strings.Contains(got, tt.heard) {
					t.Errorf("the model reads %q", got)
				}
				seen := strings.Join(w.adapter.visible("7"), "\n")
				if !strings.Contains(seen, "fine") || !strings.Contains(seen, tt.say) {
					t.Errorf("the person reads %q", seen)
				}
			})
		})
	}
}

// Each media task is observed with its result and duration.
func TestObserveMediaTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.model.Default = func(llmtest.Recorded) llmtest.Answer { return llmtest.Say("fine") }
		w.configure = func(o *gatewaytest.Options) {
			o.Media = input.Media{
				Transcribe: func(context.Context, chat.File) (string, error) { time.Sleep(time.Second); return "buy milk", nil },
				DescribeImage: func(context.Context, chat.File) (string, agent.Call, error) {
					return "", agent.Call{}, errors.New("the service is down")
				},
				Synthesize: func(context.Context, string) (chat.File, error) {
					time.Sleep(2 * time.Second)
					return chat.File{Kind: chat.Voice, Path: "/cache/s"}, nil
				},
			}
		}
		o := w.observe()
		w.start()
		defer w.stop()
		w.sendText("7", "/voice on")
		w.advance(time.Minute)
		w.sendFile(chat.File{Kind: chat.Voice, Name: "v.ogg", MIME: "audio/ogg", Path: "/cache/v"})
		w.sendFile(chat.File{Kind: chat.Photo, Name: "p.png", MIME: "image/png", Path: "/cache/p"})
		w.advance(time.Minute)
		var got []string
		for _, line := range strings.Split(o.takeLines(), "\n") {
			if strings.Contains(line, ", failed ") {
				got = append(got, line)
			}
		}
		want := []string{"image_description, failed true, in 0s", "speech_synthesis, failed false, in 2s", "speech_synthesis, failed false, in 2s", "transcription, failed false, in 1s"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestMediaTasksSpeakAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t, llmtest.Say("one"), llmtest.Say("**two** `x`"), llmtest.Say("three"), llmtest.Say("four"))
		fail := false
		w.configure = func(o *gatewaytest.Options) {
			o.Media.Synthesize = func(_ context.Context, text string) (chat.File, error) {
				if fail {
					return chat.File{}, errors.New("no voice today")
				}
				return chat.File{Kind: chat.Voice, Name: fmt.Sprintf("spoken %q", text), Path: "/cache/s"}, nil
			}
		}
		w.start()
		defer w.stop()
		for _, text := range []string{"a", "/voice on", "b"} {
			w.sendText("7", text)
			w.advance(time.Minute)
		}
		fail = true
		w.sendText("7", "c")
		w.advance(time.Minute)
		w.sendText("7", "/voice off")
		w.sendText("7", "d")
		w.advance(time.Minute)
		got := strings.Join(w.adapter.visible("7"), "|")
		want := "one|I speak my answers too.|two x|file spoken \"two x\"|three|I could not speak this answer: no voice today.|I answer in writing only.|four"
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
