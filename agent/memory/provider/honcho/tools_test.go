package honcho_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/providertest"
	"hermesd/internal/sim/memory/simtest"
)

func TestTools(t *testing.T) {
	s, p := start(t, `{}`)
	c := simtest.Caller{T: t, Server: s.Server, Header: map[string]string{"Authorization": "Bearer k"}}
	owner, other := providertest.Owner("c1"), providertest.Other("c2")
	call := func(scope provider.Scope, tool, input string) string {
		t.Helper()
		out, err := p.Call(t.Context(), scope, tool, json.RawMessage(input))
		if err != nil {
			t.Fatalf("%s(%s): %v", tool, input, err)
		}
		return out
	}
	sync(t, p, turn("1", owner, "I like tea."), turn("2", other, "I like coffee."))
	c.Call(200, "PUT", "/v3/workspaces/hermes/peers/telegram-77/card", `{"peer_card":["Name: Bob"]}`)
	ai := c.Call(201, "POST", "/v3/workspaces/hermes/conclusions", `{"conclusions":[{"content":"Is brief.","observer_id":"hermes","observed_id":"hermes"}]}`)
	const refused = `{"error":"Only peer 'user' may be asked about here."}`
	for _, step := range []struct {
		scope             provider.Scope
		tool, input, want string
	}{
		{owner, "honcho_profile", `{}`, `{"hint":"This is not an error: Honcho makes the card from what is said over time. Set it with card, or try honcho_search.","result":"No profile facts available yet."}`},
		{owner, "honcho_profile", `{"card":["Name: Ann","City: Rome"]}`, `{"card":["Name: Ann","City: Rome"],"result":"Peer card updated (2 facts)."}`},
		{owner, "honcho_profile", `{"peer":"user"}`, `{"result":["Name: Ann","City: Rome"]}`},
		{other, "honcho_profile", `{}`, `{"result":["Name: Bob"]}`},
		{owner, "honcho_search", `{}`, `{"error":"Missing required parameter: query"}`},
		{owner, "honcho_search", `{"query":"brief","peer":"ai"}`, `{"result":"- Is brief."}`},
		{owner, "honcho_search", `{"query":"nothing"}`, `{"result":"- Name: Ann\n- City: Rome"}`},
		{other, "honcho_search", `{"query":"nothing"}`, `{"result":"No relevant context found."}`},
		{owner, "honcho_conclude", `{"conclusion":"Likes tea."}`, `{"id":"con_000014","result":"Conclusion saved for user: Likes tea."}`},
		{owner, "honcho_search", `{"query":"tea","max_tokens":1}`, `{"result":"- Li…"}`},
		{owner, "honcho_reasoning", `{"query":"Which tea?","reasoning_level":"max"}`, `{"result":"- Likes tea.\n"}`},
		{owner, "honcho_reasoning", `{"query":"Which car?"}`, `{"result":"No result from Honcho."}`},
		{owner, "honcho_reasoning", `{"query":" "}`, `{"error":"Missing required parameter: query"}`},
		{owner, "honcho_reasoning", `{"query":"tea","peer":"telegram-77"}`, `{"result":"No result from Honcho."}`},
		{owner, "honcho_context", `{}`, `{"result":"## Representation\n- Likes tea.\n\n## Card\nName: Ann\nCity: Rome\n\n## Recent messages\n[8439114563] I like tea.\n  [hermes] Noted."}`},
		{other, "honcho_context", `{"query":"x"}`, `{"result":"## Recent messages\n[telegram-77] I like coffee.\n  [hermes] Noted."}`},
		{other, "honcho_profile", `{"peer":"ai"}`, refused},
		{other, "honcho_search", `{"query":"tea","peer":"8439114563"}`, refused},
		{other, "honcho_conclude", `{"delete_id":"con_000014"}`, `{"error":"Failed to delete conclusion con_000014."}`},
		{other, "honcho_conclude", `{"delete_id":"none"}`, `{"error":"Failed to delete conclusion none."}`},
		{other, "honcho_conclude", `{"conclusion":"Likes coffee."}`, `{"id":"con_000015","result":"Conclusion saved for user: Likes coffee."}`},
		{other, "honcho_conclude", `{"delete_id":"con_000015"}`, `{"result":"Conclusion con_000015 deleted."}`},
		{owner, "honcho_conclude", `{"delete_id":"con_000014"}`, `{"result":"Conclusion con_000014 deleted."}`},
		{owner, "honcho_conclude", `{"delete_id":"con_000014"}`, `{"error":"Failed to delete conclusion con_000014."}`},
		{owner, "honcho_conclude", `{"delete_id":"` + ai.Field(0, "id") + `"}`, `{"result":"Conclusion ` + ai.Field(0, "id") + ` deleted."}`},
		{owner, "honcho_conclude", `{}`, `{"error":"Exactly one of conclusion or delete_id must be provided."}`},
		{owner, "honcho_conclude", `{"conclusion":"a","delete_id":"b"}`, `{"error":"Exactly one of conclusion or delete_id must be provided."}`},
		{owner, "honcho_nothing", `{}`, `{"error":"Unknown tool: honcho_nothing"}`},
	} {
		if got := call(step.scope, step.tool, step.input); got != step.want {
			t.Errorf("%s(%s):\n got %s\nwant %s", step.tool, step.input, got, step.want)
		}
	}
	if got := chats(s); strings.Join(got, ",") != "max about 8439114563,low about 8439114563,low about telegram-77" {
		t.Errorf("asked %q", got)
	}
}

func TestTheLevelIsThatOfTheFileIfItMayNotBeChosen(t *testing.T) {
	s, p := start(t, `{"dialecticDynamic":false,"dialecticReasoningLevel":"minimal"}`)
	if _, err := p.Call(t.Context(), providertest.Owner("c1"), "honcho_reasoning", json.RawMessage(inputs["honcho_reasoning"])); err != nil || chats(s)[0] != "minimal about 8439114563" {
		t.Errorf("%v, %q", err, chats(s))
	}
}
