package retaindb

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"hermesd/agent/memory/provider"
	"hermesd/agent/memory/provider/rest"
	"hermesd/agent/memory/provider/settings"
)

const (
	maxResults     = 20
	defaultResults = 8
	overlayItems   = 5 // of each part of a context, as upstream has it
)

// A tool is one of upstream's tools.
type tool struct {
	provider.Tool
	required string // a property that must not be empty; "": none
	run      func(*client, context.Context, call) (any, error)
}

// A call is a call of a tool.
type call struct {
	scope
	other bool // not the owner's
	in    *settings.Object
	value string // of the required property
}

func described(name, about, properties, required string) tool {
	list := ""
	if required != "" {
		list = `"` + required + `"`
	}
	return tool{required: required, Tool: provider.Tool{
		Name: "retaindb_" + name, Description: about,
		Schema: json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":[` + list + `]}`),
	}}
}

func (t tool) does(run func(*client, context.Context, call) (any, error)) tool {
	t.run = run
	return t
}

func (t tool) writes() tool {
	t.Writes = true
	return t
}

// ofOwners marks the tools of the file store, which belongs to no person.
func (t tool) ofOwners() tool {
	t.Owners = true
	return t
}

// all lists the tools.
func all() []tool {
	return []tool{
		described("profile", "Show what long-term memory knows about the person: preferences, facts, patterns.", "", "").does(profileTool),
		described("search", "Search long-term memory by meaning.",
			`"query":{"type":"string","description":"What to search for."},"top_k":{"type":"integer","description":"Maximum number of results: default 8, at most 20."}`, "query").does(searchTool),
		described("context", "Show what long-term memory has for the current task.",
			`"query":{"type":"string","description":"The task or question."}`, "query").does(contextTool),
		described("remember", "Keep a fact, preference or decision in long-term memory.",
			`"content":{"type":"string","description":"What to remember."},"memory_type":{"type":"string","enum":["factual","preference","goal","instruction","event","opinion"],"description":"Default: factual."},`+
				`"importance":{"type":"number","description":"0 to 1; default 0.7."}`, "content").does(rememberTool).writes(),
		described("forget", "Delete a memory.", `"memory_id":{"type":"string","description":"The ID of the memory."}`, "memory_id").does(forgetTool).writes(),
		described("upload_file", "Upload a file to the shared file store; the answer has its rdb:// URI.",
			`"local_path":{"type":"string","description":"The file."},"remote_path":{"type":"string","description":"Path in the store, such as /reports/q1.pdf."},`+
				`"scope":{"type":"string","enum":["USER","PROJECT","ORG"],"description":"Who may read it; default PROJECT."},"ingest":{"type":"boolean","description":"true: memories are extracted from it."}`,
			"local_path").does(uploadTool).writes().ofOwners(),
		described("list_files", "List files of the shared file store.",
			`"prefix":{"type":"string","description":"How their paths begin, such as /reports/."},"limit":{"type":"integer","description":"Maximum number; default 50."}`, "").does(listTool).ofOwners(),
		described("read_file", "Read a text file of the shared file store.", `"file_id":{"type":"string","description":"The ID of the file."}`, "file_id").does(readTool).ofOwners(),
		described("ingest_file", "Extract memories from a file of the shared file store.", `"file_id":{"type":"string","description":"The ID of the file."}`, "file_id").does(ingestTool).writes().ofOwners(),
		described("delete_file", "Delete a file of the shared file store.", `"file_id":{"type":"string","description":"The ID of the file."}`, "file_id").does(deleteTool).writes().ofOwners(),
	}
}

func tools() (list []provider.Tool) {
	for _, t := range all() {
		list = append(list, t.Tool)
	}
	return list
}

func (c *client) Call(ctx context.Context, s provider.Scope, name string, input json.RawMessage) (string, error) {
	tools := all()
	i := slices.IndexFunc(tools, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return refuse("unknown tool: " + name), nil
	}
	object, err := settings.Parse("the input of "+name, input)
	if err != nil {
		return refuse(err.Error()), nil
	}
	t, in := tools[i], call{scope: c.scope(s), other: s.Person != "", in: object}
	if in.value = object.Text(t.required); in.value == "" && t.required != "" {
		return refuse(t.required + " is required"), nil
	}
	if in.other && t.Owners {
		return refuse("only owners may use this tool"), nil
	}
	out, err := t.run(c, ctx, in)
	if err != nil {
		if provider.ClassOf(err) == provider.Refused { // the service is well: this is about the input
			return refuse(err.Error()), nil
		}
		return "", err
	}
	b, err := json.Marshal(out)
	return string(b), err
}

func refuse(text string) string {
	b, _ := json.Marshal(refusal(text)) // strings
	return string(b)
}

func refusal(text string) map[string]string { return map[string]string{"error": text} }

func profileTool(c *client, ctx context.Context, in call) (any, error) {
	var out json.RawMessage
	return &out, c.profile(ctx, in.scope, &out)
}

func searchTool(c *client, ctx context.Context, in call) (any, error) {
	var out json.RawMessage
	limit := int(in.in.Number("top_k", defaultResults, 1, maxResults))
	return &out, c.search(ctx, in.scope, in.value, limit, &out)
}

// contextTool returns upstream's overlay: the profile, and what fits the query.
func contextTool(c *client, ctx context.Context, in call) (any, error) {
	var raw json.RawMessage
	if err := c.context(ctx, in.scope, in.value, &raw); err != nil {
		return nil, err
	}
	var found struct {
		Results []memory `json:"results"`
	}
	var known memories
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, &provider.Error{Class: provider.Garbage, Sent: true, Text: label + " has sent an answer that cannot be read", Err: err}
	}
	if err := c.profile(ctx, in.scope, &known); err != nil {
		return nil, err
	}
	overlay := ""
	if len(known.Memories)+len(found.Results) > 0 {
		first := known.Memories[:min(overlayItems, len(known.Memories))]
		second := slices.DeleteFunc(found.Results[:min(overlayItems, len(found.Results))], func(m memory) bool {
			return slices.ContainsFunc(first, func(k memory) bool { return k.Content == m.Content })
		})
		overlay = "[RetainDB Context]\n" + part("Profile:", first) + "\n" + part("Relevant memories:", second)
	}
	return map[string]any{"context": overlay, "raw": raw}, nil
}

func part(title string, found []memory) string {
	if text := list(title, found, overlayItems*(maxLine+4)); text != title {
		return text
	}
	return title + "\n- None"
}

func rememberTool(c *client, ctx context.Context, in call) (any, error) {
	var out json.RawMessage
	m := newMemory{scope: in.scope, Content: in.value, Type: cmp.Or(in.in.Text("memory_type"), "factual"), Importance: in.in.Number("importance", defaultImportance, 0, 1)}
	return &out, c.add(ctx, m, "", &out)
}

// forgetTool deletes a memory that the profile of the person lists: the service deletes any
// memory of any project, and no call tells whose an ID is.
func forgetTool(c *client, ctx context.Context, in call) (any, error) {
	var own memories
	if err := c.profile(ctx, in.scope, &own); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(own.Memories, func(m memory) bool { return m.ID == in.value }) {
		return refusal("the profile of this person lists no such memory"), nil
	}
	var out json.RawMessage
	return &out, c.remove(ctx, in.value, &out)
}

// file makes a call about a file.
func (c *client) file(ctx context.Context, read bool, request rest.Call) (any, error) {
	var out json.RawMessage
	return &out, c.call(ctx, read, request, &out)
}

func deleteTool(c *client, ctx context.Context, in call) (any, error) {
	return c.file(ctx, false, rest.Call{Method: http.MethodDelete, Path: filePath(in.value)})
}

func ingestTool(c *client, ctx context.Context, in call) (any, error) {
	return c.file(ctx, false, rest.Call{Method: http.MethodPost, Path: filePath(in.value) + "/ingest", Body: map[string]string{"user_id": in.User, "agent_id": agentID}})
}
