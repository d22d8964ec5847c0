package texts

// Events is a file of a recorder with an event of each kind that views draw, some of which only a stranger would write: a seed for what
// fuzzes them.
const Events = `{"seq":1,"event":{"kind":"pool","state":"opening","time":"2026-11-28T17:00:00Z","pool":"p","node":-1,"spec":{"Nodes":2,"BudgetUSD":3}}}
{"seq":2,"event":{"kind":"offer","state":"refused","time":"2026-11-28T17:00:00Z","pool":"p","node":-1,"offer":{"Provider":"acme|x","InstanceType":"@big","Region":"r\u0000"},"error":{"text":"no room #1"}}}
{"seq":3,"event":{"kind":"node","state":"bootstrapping","time":"2026-11-28T17:00:01Z","pool":"p","node":0,"at":{"ID":"i-1","Provider":"acme\n","Ports":{"22":"h:1"},"HourlyUSD":1}}}
{"seq":4,"event":{"kind":"phase","state":"started","time":"2026-11-28T17:00:01Z","pool":"p","node":0,"phase":"apt","usual":3}}
{"seq":5,"event":{"kind":"progress","time":"2026-11-28T17:00:02Z","pool":"p","node":0,"phase":"apt","progress":{"What":"x","Done":9,"Total":-1,"Unit":"By"}}}
{"seq":6,"line":{"time":"2026-11-28T17:00:02Z","pool":"p","node":0,"phase":"apt","text":"a\u001b[2Jb"}}
{"seq":7,"event":{"kind":"phase","state":"failed","time":"2026-11-28T17:00:03Z","pool":"p","node":0,"phase":"apt","error":{"text":"exit\ncode"}}}
{"seq":8,"event":{"kind":"node","state":"ready","time":"2026-11-28T17:00:04Z","pool":"p","node":0,"at":{"ID":"i-1"},"until":"2026-11-28T18:00:04Z"}}
{"seq":9,"event":{"kind":"task","state":"started","time":"2026-11-28T17:00:05Z","pool":"p","node":0,"task":"1","name":"t\u202e 1","attempt":1}}
{"seq":10,"line":{"time":"2026-11-28T17:00:05Z","pool":"p","node":0,"task":"1","stderr":true,"text":"www.evil.example <img> ` + "`" + `x"}}
{"seq":11,"event":{"kind":"step","time":"2026-11-28T17:00:05Z","pool":"p","node":0,"task":"1","step":{"n":-1,"of":9223372036854775807,"values":{"a\u202e\"":"NaN"}}}}
{"seq":12,"event":{"kind":"usage","state":"sample","time":"2026-11-28T17:00:05Z","pool":"p","node":0,"usage":{"Accelerators":[{"Device":"x","Utilization":-5}],"Host":{"CPU":-1e300}}}}
{"seq":13,"event":{"kind":"transfer","state":"sending","time":"2026-11-28T17:00:05Z","pool":"p","node":0,"path":"../x","bytes":-3,"totalBytes":9,"bytesPerSecond":1e300}}
{"seq":14,"event":{"kind":"cost","time":"2026-11-28T17:00:05Z","pool":"p","node":-1,"cost":{"USD":-1,"HourlyUSD":1e300,"Bounded":true}}}
{"seq":15,"event":{"kind":"training","state":"running","time":"2026-11-28T17:00:05Z","pool":"p","node":-1,"name":"g","epoch":-7}}
{"seq":16,"event":{"kind":"tally","time":"2026-11-28T17:00:05Z","pool":"p","node":-1,"tally":{"Running":-4,"Ended":[{"Name":"","Node":0,"Done":-9}]}}}
{"seq":17,"event":{"kind":"task","state":"failed","time":"0001-01-01T00:00:00Z","pool":"p","node":0,"task":"1","elapsed":1e300,"error":{"text":"x","tail":"\u0000"},"ended":{"Cause":99,"Slot":-1}}}
{"seq":18,"event":{"kind":"pool","state":"closed","time":"9999-12-31T23:59:59Z","pool":"p","node":-1,"error":{"text":"end"}}}
`
