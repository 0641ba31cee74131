package openaiapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hermesd/adapters/httpapi/internal/openaiapi"
)

func TestARequestIsTakenApart(t *testing.T) {
	r, f := openaiapi.Parse([]byte(`{"model":"m","user":"u","stream":true,"stream_options":{"include_usage":true},"seed":1,"foo":null,"bar":{},
		"logprobs":false,"response_format":{ "type": "text" },"tool_choice":"auto","messages":[
		{"role":"system","content":[{"type":"text","text":"be"},{"type":"text","text":"brief"}]},
		{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"tool","content":"t"},
		{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"two"}]},{"role":"user","content":"three"}]}`))
	if f != nil {
		t.Fatal(f)
	}
	want := &openaiapi.Request{
		Model: "m", User: "u", Stream: true, Usage: true, Prompt: "be\nbrief", Text: "two\n\nthree", Images: []string{"data:x"},
		History: []openaiapi.Said{{Role: "user", Text: "one"}, {Role: "assistant", Text: "no"}, {Role: "tool", Text: "t"}}, Ignored: []string{"bar", "seed"},
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Error(d)
	}
}

func TestANewConversationBeginsAtItsCommand(t *testing.T) {
	r, f := openaiapi.Parse([]byte(`{"messages":[{"role":"user","content":"old"},{"role":"assistant","content":"old"},{"role":"user","content":" /new title"},
		{"role":"assistant","content":"A new one."},{"role":"user","content":"one /new"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]}`))
	if f != nil {
		t.Fatal(f)
	}
	if d := cmp.Diff([]openaiapi.Said{{Role: "user", Text: "one /new"}, {Role: "assistant", Text: "two"}}, r.History); d != "" {
		t.Error(d)
	}
	r, f = openaiapi.Parse([]byte(`{"messages":[{"role":"user","content":"/reset"},{"role":"assistant","content":"A new one."},{"role":"user","content":"three"}]}`))
	if f != nil || len(r.History) > 0 {
		t.Errorf("%v, %+v", f, r)
	}
}

func TestAFailureIsOpenAIs(t *testing.T) {
	f := openaiapi.Refuse("n", "unsupported_parameter", "no %s", "<n>")
	var got, want any
	if err := json.Unmarshal(f.Body(), &got); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal([]byte(`{"error":{"message":"no <n>","type":"invalid_request_error","param":"n","code":"unsupported_parameter"}}`), &want)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// FuzzParse: whatever comes, it is refused with words, or there is something to
// answer, nothing of which can break a header.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"messages":[{"role":"user","content":"hi"}]}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"a\nb":1,"n":1}`,
		`{"messages":[{"role":"system"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}]}]}`,
		`{"messages":[{"role":"assistant","content":null},{"role":"user","content":"\ud800"}],"stream":false}`, strings.Repeat("[", 20000),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, failure := openaiapi.Parse(body)
		if failure != nil {
			if failure.Text == "" || failure.Status < 400 || !json.Valid(failure.Body()) {
				t.Fatalf("refused as %+v", failure)
			}
			return
		}
		if r.Text == "" && len(r.Images) == 0 {
			t.Fatal("there is nothing to answer")
		}
		for _, n := range r.Ignored {
			if n == "" || strings.ContainsAny(n, "\r\n\x00, ") || len(n) > 40 {
				t.Fatalf("%q may not stand in a header", n)
			}
		}
		for _, u := range r.Images {
			if strings.HasPrefix(u, "data:") {
				if kind, content, err := openaiapi.DataURL(u); err == nil && (!strings.HasPrefix(kind, "image/") || len(content) == 0) {
					t.Fatalf("%q is %q with %d bytes", u, kind, len(content))
				}
			}
		}
		_ = openaiapi.Quoted(r.History)
	})
}
