package clarify_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/agent/tool"
	"hermesd/agent/tools/clarify"
)

// A user answers with a function.
type user struct {
	tool.Unattended
	ask func(context.Context, tool.Question) (tool.Answer, error)
}

func (u user) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) { return u.ask(ctx, q) }

// ask runs the tool with a user who gives the scripted answer.
func ask(t *testing.T, in string, answer tool.Answer, fault error) (said string, asked []tool.Question, err error) {
	t.Helper()
	set, err := tool.NewSet(clarify.New())
	if err != nil {
		t.Fatal(err)
	}
	x, _ := set.Lookup(clarify.Name)
	people := user{ask: func(_ context.Context, q tool.Question) (tool.Answer, error) {
		asked = append(asked, q)
		return answer, fault
	}}
	said, err = x.Run(t.Context(), tool.Call{Input: json.RawMessage(in), User: people})
	return said, asked, err
}

func TestClarifyAnswers(t *testing.T) {
	const in = `{"question":" Which\ncolour? ","choices":[" dark  blue ","red"]}`
	for want, answer := range map[string]tool.Answer{
		"The person chose 1: dark blue":              {Choice: 0, Text: "1"},
		"The person chose 2: red":                    {Choice: 1},
		"The person answered: rather green":          {Choice: -1, Text: " rather green\n"},
		"The person answered: 9":                     {Choice: 9, Text: "9"},
		"The person answered with an empty message.": {Choice: -1, Text: " \n"},
	} {
		said, asked, err := ask(t, in, answer, nil)
		if err != nil || said != want {
			t.Errorf("got %q, %v; want %q", said, err, want)
		}
		if d := cmp.Diff([]tool.Question{{Text: "Which\ncolour?", Choices: []string{"dark blue", "red"}}}, asked); d != "" {
			t.Error(d)
		}
	}
}

func TestClarifyRejectsInvalidQuestions(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                 "is empty",
		`{"question":" \n"}`: "is empty",
		`{"question":"` + strings.Repeat("é", 2001) + `"}`:                "more than 2000",
		`{"question":"q","choices":["a","b","c","d","e"]}`:                "the most is 4",
		`{"question":"q","choices":["a"," "]}`:                            "choice 2 is empty",
		`{"question":"q","choices":["a","A"]}`:                            "twice",
		`{"question":"q","choices":["` + strings.Repeat("x", 101) + `"]}`: "choice 1 has more",
		`{"question":"q","choices":"a"}`:                                  `"choices"`,
	} {
		_, asked, err := ask(t, in, tool.Answer{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || len(asked) > 0 {
			t.Errorf("%.60s: got %v, asked %v; want %q", in, err, asked, want)
		}
	}
}

func TestClarifyWithoutAnswer(t *testing.T) {
	_, _, err := ask(t, `{"question":"q"}`, tool.Answer{}, errors.New("nobody answered within 10 minutes"))
	if err == nil || !strings.Contains(err.Error(), "nobody answered within 10 minutes") {
		t.Errorf("got %v", err)
	}
	_, err = clarify.New().Run(t.Context(), tool.Call{Input: json.RawMessage(`{"question":"q"}`), User: tool.Unattended{}})
	if !errors.Is(err, tool.ErrUnattended) || !strings.Contains(err.Error(), "Decide yourself") {
		t.Errorf("unattended: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	people := user{ask: func(ctx context.Context, _ tool.Question) (tool.Answer, error) {
		return tool.Answer{}, context.Cause(ctx)
	}}
	if _, err := clarify.New().Run(ctx, tool.Call{Input: json.RawMessage(`{"question":"q"}`), User: people}); !errors.Is(err, stopped) {
		t.Errorf("stopped: %v", err)
	}
}

func TestClarifyIsPure(t *testing.T) {
	if s := clarify.New().Spec(); s.Effect != tool.Pure || s.Parallel {
		t.Errorf("got %q, parallel %t; a question is asked again after a crash, and never at the same time as another", s.Effect, s.Parallel)
	}
}
