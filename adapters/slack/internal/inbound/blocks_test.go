package inbound_test

import (
	"strings"
	"testing"
)

func TestBlocks(t *testing.T) {
	const table = `{"type":"table","rows":[[{"type":"raw_text","text":"a|b"},{"type":"raw_number","value":3}],[null,{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"U1"},{"type":"text","text":" x\ny"}]}]}]]}`
	const rows = "| a\\|b | 3 |\n| --- | --- |\n|  | @ann x y |"
	for _, c := range []struct{ name, fields, want string }{
		{"table", `"text":"see","blocks":[` + table + `]`, "see\n" + rows},
		{"table without a text", `"blocks":[` + table + `]`, rows},
		{"table in an attachment", `"text":"see","attachments":[{"fallback":"[no preview available]","blocks":[` + table + `]}]`, "see\n" + rows},
		{"table in a forwarded message", `"text":"see","attachments":[{"is_share":true,"author_name":"Bob","text":"look","message_blocks":[{"message":{"blocks":[{"type":"rich_text","elements":[]},` + table + `]}}]}]`, "see\n[forwarded from Bob] look\n" + rows},
		{"data table", `"text":"","blocks":[{"type":"data_table","caption":"Devices","rows":[[{"type":"raw_text","text":"n"}]]}]`, "Devices\n| n |"},
		{"text of rich text once", `"text":"<@U1> *bold* <https://a.test|a> :+1:","blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"U1"},{"type":"text","text":" bold"}]}]}]`, "@ann *bold* a (https://a.test) :+1:"},
		{"rich text alone", `"text":"","blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"a <b> "},{"type":"link","url":"https://a.test","text":"here"},{"type":"emoji","name":"wave"},{"type":"channel","channel_id":"C1"},{"type":"broadcast","range":"here"},{"type":"usergroup","usergroup_id":"S1"},{"type":"date","timestamp":1720710212}]},` +
			`{"type":"rich_text_list","style":"ordered","offset":1,"elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"two"}]}]},` +
			`{"type":"rich_text_list","style":"bullet","indent":1,"elements":[{"type":"rich_text_section","elements":[{"type":"text","text":"in"}]}]},` +
			`{"type":"rich_text_quote","elements":[{"type":"text","text":"q\nr"}]},{"type":"rich_text_preformatted","elements":[{"type":"text","text":"x := 1"}]}]}]`,
			"a <b> here (https://a.test):wave:#general@here@S1" + "2024-07-11T15:03:32Z\n2. two\n  - in\n> q\n> r\n```\nx := 1\n```"},
		{"sections of an app", `"text":"ERROR","bot_id":"B7","blocks":[{"type":"header","text":{"type":"plain_text","text":"Error"}},{"type":"section","text":{"type":"mrkdwn","text":"Disk &lt;full&gt; of <@U1>"},"fields":[{"type":"mrkdwn","text":"a"},{"type":"plain_text","text":"b"}]},{"type":"actions","elements":[{"type":"button","text":{"type":"plain_text","text":"OK"}}]}]`, "ERROR\nDisk <full> of @ann\na\nb"},
		{"attachment of an app", `"text":"up","bot_id":"B7","attachments":[{"fallback":"f","text":"98%","fields":[{"title":"Unit","value":"3"}]},{"text":"more"}]`, "up\n98%\nUnit\n3\nmore"},
		{"preview of a link", `"text":"<https://a.test>","attachments":[{"from_url":"https://a.test","text":"A page"}]`, "https://a.test"},
		{"of another form", `"text":"x","blocks":{"a":1},"attachments":[{"blocks":7},{"blocks":[7,{"type":"table","rows":"invalid"},{"type":"table","rows":[["x",{"type":"raw_text"}]]}]}]`, "x\n|  |  |"},
		{"newer than this", `"text":"","blocks":[{"type":"poem","title":"Ode","elements":[{"type":"stanza","text":"roses"}]}]`, "Ode\nroses"},
		{"deep", `"text":"","blocks":[` + strings.Repeat(`{"type":"x","elements":[`, 60) + strings.Repeat(`]}`, 60) + `,{"type":"context","elements":[{"type":"plain_text","text":"end"}]}]`, "end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, ok, err := converter(t).Convert(message(`"channel":"D1","channel_type":"im",`+c.fields), now())
			if !ok || err != nil || in.Text != c.want {
				t.Errorf("got  %q\nwant %q; %v %v", in.Text, c.want, ok, err)
			}
		})
	}
	in, _, _ := converter(t).Convert(message(`"text":"","blocks":[{"type":"rich_text","elements":[{"type":"rich_text_section","elements":[{"type":"user","user_id":"UME"},{"type":"text","text":" hi"}]}]}]`), now())
	if !in.Addressed || in.Text != "@hermes hi" {
		t.Errorf("a mention that stands only in blocks: %+v", in)
	}
}
