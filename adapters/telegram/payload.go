package telegram

import (
	"github.com/go-telegram/bot/models"

	"hermesd/adapters/telegram/internal/entity"
	"hermesd/gateway/chat"
)

// Size returns the length of r in UTF-16 units, which Telegram's limits count;
// styles do not count.
func Size(r chat.RichText) int { return entity.Units(r.Text) }

// render converts r to the library's types.
func render(r chat.RichText) (string, []models.MessageEntity) {
	text, es := entity.Render(r)
	var out []models.MessageEntity
	for _, e := range es {
		out = append(out, models.MessageEntity{
			Type: models.MessageEntityType(e.Type), Offset: e.Offset, Length: e.Length, URL: e.URL, Language: e.Language,
		})
	}
	return text, out
}

// A keyboard is the buttons under a message. The library's own type adds an
// empty copy_text to every button, which gives each button two actions.
type keyboard struct {
	Rows [][]key `json:"inline_keyboard"`
}

type key struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// buttons returns the keyboard for rows, nil if there is none.
func buttons(rows [][]chat.Button) models.ReplyMarkup {
	var k keyboard
	for _, row := range rows {
		var line []key
		for _, b := range row {
			line = append(line, key{Text: b.Label, Data: b.Data})
		}
		if len(line) > 0 {
			k.Rows = append(k.Rows, line)
		}
	}
	if k.Rows == nil {
		return nil
	}
	return k
}
