
¯
º
'
deployment.environment.name
latest

opencode.client
cli

opencode.run

ea94fb20
!
service.instance.id

ea94fb20

service.name

opencode

service.version
7.7.7p


opencodeb	Info	šø cìYšø cì2
fiberIdŸÑ**

init

{"count":1}J”õ´f²»i5M	â¬BžßJR²f\ì=È¨¶