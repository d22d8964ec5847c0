package apifacts

import "testing"

func TestAmendmentsKnowTheirPlace(t *testing.T) {
	for name, amend := range map[string]Amendment{
		"no schema": AllowFields("/components/schemas/Nothing", "x"), "no properties": AllowFields("/components/schemas/Other", "x"),
		"known":  AllowFields("/components/schemas/Thing", "id"),
		"no key": renameKey("/components/schemas/Thing", "ids", "x"), "taken": renameKey("/components/schemas/Thing", "type", "required"),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("an amendment that changes nothing is accepted")
				}
			}()
			amend(read(t, vendor))
		})
	}
	doc := read(t, vendor)
	AllowFields("/components/schemas/Thing", "more")(doc)
	renameKey("/components/schemas/Thing/properties", "id", "uuid")(doc)
	TrailingSlash(doc)
	fields := at(doc, "/components/schemas/Thing/properties")
	if fields["more"] == nil || fields["uuid"] == nil || fields["id"] != nil || object(doc["paths"])["/v1/things/{id}/"] == nil {
		t.Errorf("%v", doc)
	}
}
